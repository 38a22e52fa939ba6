"""Draw README's picture, docs/site.png: two networks that read a test image in headless Chromium.

`python -m benchmarks.site_picture [SITE]` takes the folder of a built site (default: site). It needs playwright, pillow and
Chromium, as `make test-site` installs them.
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from cli.output import say

FIRST, SECOND, STEP = "star-16x64-pmnist", "lstm-4x128-pmnist", 783
SAMPLES = 5
"""Number of clicks for another test image: the fifth image is drawn."""
COLOURS = 256  # with 96, two of the ten classes had one colour


def main() -> None:
    """Run the program."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
        page.goto(f"{site.as_uri()}/models/{FIRST}.html")
        page.select_option("[data-do=peer]", SECOND)
        for _ in range(SAMPLES):
            page.click("[data-do=sample]")
            page.wait_for_function("document.querySelector('.now').textContent.startsWith('Answer')")
        page.fill("[data-do=step]", str(STEP))
        picture = page.locator(".widget").screenshot()
        browser.close()
    target = Path(__file__).parent.parent / "docs" / "site.png"
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    say(f"Wrote {target}, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
