"""The site that tests open in a browser, built once, and the browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the whole zoo; of an earlier build if RNNZOO_SITE names its folder."""
    from browsing import LIVE

    from zoo.publishing.site import builder

    out = Path(os.environ.get("RNNZOO_SITE") or tmp_path_factory.mktemp("site"))
    builder.build(out, live=LIVE)
    return out


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, whose microphone hears beeps."""
    from browsing import CHROMIUM

    playwright = pytest.importorskip("playwright.sync_api")
    arguments = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()
