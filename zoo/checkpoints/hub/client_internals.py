"""Every private part of huggingface_hub that rnnzoo uses, tried with huggingface_hub 2.4.0.

Each function says why no public name would do. When a new release breaks a private name, only this file has to change.
"""

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

BROKEN_DOWNLOAD = "Consistency check"
"""Part of the message of the OSError that the client raises for a body of the wrong size."""
SENT_AT_ONCE = 2**14
"""Maximum number of bytes in one send operation."""


class Hooks(Protocol):
    """The methods that `add_hooks` has called for every request of the client."""

    def request(self, request: Any) -> None: ...
    def response(self, response: Any) -> None: ...
    def failure(self, error: Exception) -> None:
        """Called with the error if a request has no response."""

    def operation(self, operate: Callable[[float | None], T], timeout: float | None, sent: int = 0) -> T:
        """Return operate(seconds). `operate` connects, reads once, or sends `sent` bytes within so many seconds.

        timeout: the seconds that the HTTP library allows, which `seconds` may shorten; None if it sets no limit.
        """


def add_hooks(hooks: Hooks) -> None:
    """Call `hooks` for every request of huggingface_hub's future HTTP clients.

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
            "request": [*before["request"], hooks.request],
            "response": [*before["response"], hooks.response],
        }
        client._transport = _watched(client._transport, hooks)
        client._mounts = {url: each and _watched(each, hooks) for url, each in client._mounts.items()}
        return client

    factory.rnnzoo = True  # type: ignore[attr-defined]
    set_client_factory(factory)


def _watched(transport: Any, hooks: Hooks) -> Any:
    """Return a transport that reports its failures to `hooks`, and passes every connect, read and send to hooks.operation.

    The HTTP library limits only the time of a single read, so it would wait without end for a server that sends a byte now
    and then. Only the backend of the library's connection pool gives access to single operations.
    """
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    class Watched(httpx.BaseTransport):
        def handle_request(self, request: Any) -> Any:
            try:
                return transport.handle_request(request)
            except transport_errors() as error:
                hooks.failure(error)
                raise

        def close(self) -> None:
            transport.close()

    if (pool := getattr(transport, "_pool", None)) is not None:
        pool._network_backend = _Backend(pool._network_backend, hooks)
    return Watched()


class _Backend:
    """A backend of the HTTP library that makes connections of class _Stream."""

    def __init__(self, backend: Any, hooks: Hooks):
        self._backend, self._hooks = backend, hooks
        self.sleep = backend.sleep

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, *more: Any, **options: Any) -> "_Stream":
        connect = self._backend.connect_tcp
        operate = lambda limit: within(limit, lambda: connect(host, port, limit, *more, **options))  # noqa: E731
        return _Stream(self._hooks.operation(operate, timeout), self._hooks)

    def connect_unix_socket(self, path: str, timeout: float | None = None, *more: Any, **options: Any) -> "_Stream":
        connect = self._backend.connect_unix_socket
        stream = self._hooks.operation(lambda limit: connect(path, limit, *more, **options), timeout)
        return _Stream(stream, self._hooks)


class _Stream:
    """A connection that passes each read and send to hooks.operation."""

    def __init__(self, stream: Any, hooks: Hooks):
        self._stream, self._hooks = stream, hooks
        self.close, self.get_extra_info = stream.close, stream.get_extra_info

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._hooks.operation(lambda limit: self._stream.read(max_bytes, limit), timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), SENT_AT_ONCE):
            part = buffer[begin : begin + SENT_AT_ONCE]
            self._hooks.operation(partial(self._stream.write, part), timeout, len(part))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        start = self._stream.start_tls
        return _Stream(
            self._hooks.operation(lambda limit: start(ssl_context, server_hostname, limit), timeout), self._hooks
        )


def within(seconds: float | None, connect: Callable[[], T]) -> T:
    """Return connect(), or raise the HTTP library's ConnectTimeout if that takes longer than `seconds`.

    Connecting looks up the host's name, which nothing can interrupt, and tries each of its addresses in turn.
    """
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(connect())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(seconds)
    except FutureTimeoutError as error:
        if outcome.done():  # the connection's own error
            raise
        outcome.add_done_callback(lambda late: late.exception() or late.result().close())  # type: ignore[attr-defined]
        raise httpx.ConnectTimeout("timed out") from error


def wrap_body(response: Any, wrap: Callable[[Iterator[bytes]], Iterator[bytes]]) -> None:
    """Replace the body of a response by wrap(body), because the client limits neither a body's size nor its time."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # httpx in 1.x, httpx2 in 2.x

    stream = response.stream

    class Wrapped(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield from wrap(iter(stream))

        def close(self) -> None:
            stream.close()

    response.stream = Wrapped()


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the HTTP library, which is httpx in huggingface_hub 1.x and httpx2 in 2.x."""
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    return (*(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception)), httpx.InvalidURL)


def disable_xet(disabled: bool) -> bool:
    """Switch the Xet servers for large files off (True) or on (False), and return the previous setting.

    The public way is an environment variable, which is read only once.
    """
    return _set("HF_HUB_DISABLE_XET", disabled)


def disable_telemetry(disabled: bool) -> bool:
    """Switch the client's telemetry off (True) or on (False), and return the previous setting.

    For telemetry, the client asks the Hub for a list of agents and keeps it in HF_HOME. It would wait for a pipe in the place
    of that file, write through a link, and fail if the list is damaged. The public way is read only once, too.
    """
    return _set("HF_HUB_DISABLE_TELEMETRY", disabled)


def _set(name: str, value: bool) -> bool:
    from huggingface_hub import constants

    before = bool(getattr(constants, name))
    setattr(constants, name, value)
    return before


def retry_seconds(message: str) -> float | None:
    """Return the seconds until the client's next try if `message` announces one, else None. The client has no callback."""
    announced = re.match(r"(?:Retrying in|Rate limited\. Waiting) ([\d.]+)s", message)
    return float(announced[1]) if announced else None


def explains_retry(message: str) -> bool:
    """Return whether a log message is one that the client writes before it tries again, which rnnzoo says itself."""
    return " thrown while requesting " in message or message.startswith("Error while downloading from ")


def says_nothing_to_push(message: str) -> bool:
    """Return whether a log message says that a commit would change no file. No option turns this message off."""
    return message.startswith("No files have been modified")


def means_absent(found: object) -> bool:
    """Return whether an answer of `try_to_load_from_cache` says that the Hub has no such file: a mark with a private name."""
    from huggingface_hub import _CACHED_NO_EXIST

    return found is _CACHED_NO_EXIST


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Switch the client's progress bars off within the block. Uploads draw them on stderr, and no option turns them off."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    enabled = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if enabled:
            enable_progress_bars()
