"""What tests of the site in a browser share: the program, the models that are compared, and a visit to a page."""

import os
import shutil
from pathlib import Path
from typing import Any

from zoo import registry
from zoo.publishing.site import live

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
HEADLINE = "star-16x64-pmnist"
SPEECH, MUSIC, FORECAST = "mingru-3x96-fsdd", "star-2x96-jsb", "gru-2x64-lorenz"
LIVE = (
    HEADLINE, "lstm-4x128-pmnist", "lstm-1x128-smnist", "gru-1x128-mnist-rows", "blocklru-1x196-pmnist",
    "gru-1x200-spooky", "gru-2x256-shakespeare", "rin-1x100-babi-20", "rin-1x100-adding-200", SPEECH, MUSIC,
    FORECAST,
)  # fmt: skip
"""A model of every kind, and of float32 and 8-bit weights."""
if os.environ.get("RNNZOO_LIVE") == "all":
    LIVE = tuple(name for name in registry.list_models(pretrained=True) if live.kind_of(registry.find(name)))


class Visit:
    """A page that was opened: what it said on its console and what it asked for."""

    def __init__(self, browser: Any, folder: Path, path: str, **options: Any):
        self.page = browser.new_page(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{folder.as_uri()}/{path}")

    @property
    def bytes(self) -> int:
        """The size of all files that the page has asked for."""
        local = {url.partition("#")[0].partition("?")[0] for url in self.requests if url.startswith("file:")}
        return sum(Path(url.removeprefix("file://")).stat().st_size for url in local)

    def check(self) -> None:
        """Nothing went wrong, and nothing was asked of another place."""
        assert self.errors == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []

    def answered(self, word: str = "Answer") -> str:
        """Wait for the network's answer and return it."""
        self.page.wait_for_function(f"document.querySelector('.now').textContent.startsWith('{word}')")
        return str(self.page.text_content(".now"))
