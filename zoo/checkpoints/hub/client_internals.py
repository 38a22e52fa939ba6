"""Every private part of huggingface_hub that rnnzoo uses, tried with huggingface_hub 2.4.0.

Each function says why no public name would do. When a new release breaks a private name, only this file has to change.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

BROKEN_DOWNLOAD = "Consistency check"
"""Words in the message of the OSError that the client raises for a body of the wrong size."""


def add_hooks(on_request: Callable[[Any], None], on_response: Callable[[Any], None]) -> None:
    """Call `on_request` for every request and `on_response` for every response of huggingface_hub's future HTTP clients.

    `set_client_factory` is public, but the factory set before, perhaps by the user, has no public getter. Hooks on the
    client that `get_session` returns would be lost, because the library replaces that client after a failed connection.
    """
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils import _http

    make_client = _http._GLOBAL_CLIENT_FACTORY
    if getattr(make_client, "rnnzoo", False):
        return

    def factory() -> Any:
        client = make_client()
        before = client.event_hooks
        client.event_hooks = {
            "request": [*before["request"], on_request],
            "response": [*before["response"], on_response],
        }
        return client

    factory.rnnzoo = True  # type: ignore[attr-defined]
    set_client_factory(factory)


def watch_body(response: Any, watch: Callable[[int], bool]) -> None:
    """Call `watch` with the number of bytes so far at each part of a response's body. If it returns False, the body ends.

    The client reads bodies itself and limits neither their size nor their time.
    """
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx in 1.x, httpx2 in 2.x

    stream = response.stream

    class Watched(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            done = 0
            for part in stream:
                done += len(part)
                if not watch(done):
                    return
                yield part

        def close(self) -> None:
            stream.close()

    response.stream = Watched()


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the HTTP library, which is httpx in huggingface_hub 1.x and httpx2 in 2.x."""
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    return (*(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception)), httpx.InvalidURL)


def disable_xet(disabled: bool) -> bool:
    """Switch the Xet servers for large files off (True) or on (False), and return the previous setting.

    The public way is an environment variable, which is read only once.
    """
    from huggingface_hub import constants

    before, constants.HF_HUB_DISABLE_XET = constants.HF_HUB_DISABLE_XET, disabled
    return bool(before)


def retry_seconds(message: str) -> float | None:
    """Return the seconds until the client's next try if `message` announces one, else None. The client has no callback."""
    announced = re.match(r"(?:Retrying in|Rate limited\. Waiting) ([\d.]+)s", message)
    return float(announced[1]) if announced else None


def explains_retry(message: str) -> bool:
    """Return whether a log message is the line that the client writes before announcing a retry."""
    return " thrown while requesting " in message


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Switch the client's progress bars off within the block. Uploads draw them on stderr, and no option stops that."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    enabled = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if enabled:
            enable_progress_bars()
