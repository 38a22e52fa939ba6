"""Conversations with a Hub through its own client, made safe: every request has a time limit, the token goes to one
origin only, odd answers are refused before a byte is written, and errors are ours and say what to do."""

import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urljoin, urlsplit

from ...errors import CheckpointError, HubError, NetworkError, ZooError
from ...utils.version import __version__
from .. import configs
from . import settings
from .errors import CLIENT_ERRORS, explain
from .settings import PUBLIC, Settings

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

T = TypeVar("T")
Log = Callable[[str], None]
LOG: Log = logging.getLogger("rnnzoo").warning
Report = Callable[[int, int], None]
"""Called with the bytes of a file that are here, and its size."""

LIBRARY: dict[str, Any] = {"library_name": "rnnzoo", "library_version": __version__}
REQUEST_SECONDS = 30.0
"""For a request that the client gives no limit of its own."""
AGAIN = (408, 409, 429, 500, 502, 503, 504)
"""Answers after which the client may ask once more, 409 because it does so when a repository is made."""
MAX_TRIES, MAX_WAIT = 4, 8.0
MAX_FAILURES = 20
MAX_BYTES = 10**9
"""Of a file that no pin gives a size."""
ETAG = set("0123456789abcdefABCDEF")

_active: "Connection | None" = None
_turn = threading.RLock()
"""Held by the thread that has entered a Connection, as the client's settings and hooks are the process's: threads that it
starts itself, to send files, ask the same one."""


class Connection:
    """The Hub of some settings, while it is entered: api is its client, call and download speak through it. Conversations
    of several threads take turns."""

    def __init__(self, chosen: Settings, log: Log = LOG):
        self.endpoint, self.timeout, self.log = chosen.endpoint, chosen.timeout, log
        self._clock = _Clock()
        self._expected: tuple[str, int] | None = None
        """The file that is being fetched and the size it must have, if that is known."""

    def __enter__(self) -> Self:
        global _active
        from huggingface_hub import HfApi, constants

        _turn.acquire()
        try:
            _install_hooks()
            self.api = HfApi(endpoint=self.endpoint, **LIBRARY)
        except BaseException:
            _turn.release()
            raise
        self._before = (constants.HF_HUB_DISABLE_XET, _active)
        _active = self
        # only the public Hub is sure to have the servers that large files would go to otherwise
        constants.HF_HUB_DISABLE_XET = self._before[0] or self.endpoint != PUBLIC
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        global _active
        from huggingface_hub import constants

        constants.HF_HUB_DISABLE_XET, _active = self._before
        _turn.release()

    def call(self, subject: str, ask: Callable[[], T], once: bool = False) -> T:
        """What `ask`, a call of the client, returns. What may pass is tried again, unless it may be asked only once; the
        rest is a ZooError about `subject`.

        The client itself tries many requests again; this covers those that it does not, and bodies that break off.
        """
        began, tries = time.monotonic(), 0
        expected: tuple[type[Exception], ...] = (*CLIENT_ERRORS, *_transport_errors())
        while True:
            try:
                return ask()
            except ZooError:
                raise
            except expected as error:
                problem, passing = explain(error, subject, self.endpoint)
                # the client may take an error page for an answer, and stumble over it
                passing |= type(problem) is HubError and self._clock.failures > 0
                self._clock.fail()
                wait, tries, spent = min(2.0**tries, MAX_WAIT), tries + 1, time.monotonic() - began
                if not passing or once:
                    raise problem from error
                if tries == MAX_TRIES or spent + wait > self.timeout:
                    given_up = type(problem)(f"{problem} Given up after {spent:.0f} s.")
                    raise given_up from error
                self.log(f"{problem} Trying again in {wait:.0f} s.")
                time.sleep(wait)

    def download(
        self, repo: str, name: str, revision: str | None, *, size: int | None = None, limit: int = MAX_BYTES,
        force: bool = False, report: Report = lambda done, size: None, repo_type: str = "model",
    ) -> Path:  # fmt: skip
        """A file in the client's cache, fetched if need be. size: what it must have; limit: what it may have at most."""
        from huggingface_hub import hf_hub_download

        self._expected = None if size is None else (f"{repo}: {name}", size)
        try:
            return self.call(f"{repo}: {name}", lambda: Path(hf_hub_download(
                repo, name, revision=revision, endpoint=self.endpoint, force_download=force, repo_type=repo_type,
                tqdm_class=_bar(name, limit if size is None else size, report), **LIBRARY,
            )))  # fmt: skip
        finally:
            self._expected = None

    def commit(self, repo: str, revision: str) -> str:
        """The commit that a revision of a repository with a config.json is at."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(repo, configs.FILE, revision=revision, endpoint=self.endpoint)
        found = self.call(f"{repo}@{revision}", lambda: get_hf_file_metadata(url, endpoint=self.endpoint, **LIBRARY))
        if found.commit_hash is None:
            raise HubError(f"{repo}@{revision}: {self.endpoint} does not answer as a Hub does. Check HF_ENDPOINT.")
        return found.commit_hash

    def listing(self, repo: str, names: list[str], commit: str | None) -> "dict[str, RepoFile]":
        """What the Hub says of those of these files that a commit has."""
        from huggingface_hub import RepoFile

        found = self.call(repo, lambda: self.api.get_paths_info(repo, names, revision=commit))
        return {entry.path: entry for entry in found if isinstance(entry, RepoFile)}

    def before(self, request: Any) -> None:
        """Every request goes through here on its way out."""
        own, host = urlsplit(self.endpoint), request.url.host
        if _origin(str(request.url)) != _origin(self.endpoint):
            request.headers.pop("authorization", None)
            if request.url.scheme != "https" and not (own.scheme == "http" and settings.loopback(host)):
                raise NetworkError(f"{self.endpoint} sends us to {host} without encryption; refused.")
        left = self._clock.left(self.timeout)
        if left <= 0:
            waited = self._clock.troubled_for()
            raise NetworkError(
                f"{self.endpoint} has failed for {waited:.0f} s; given up. Try later, or pull with a longer --timeout."
            )
        limits = request.extensions.get("timeout") or {}
        kinds = ("connect", "read", "write", "pool")
        request.extensions["timeout"] = {kind: min(limits.get(kind) or REQUEST_SECONDS, left) for kind in kinds}
        self._clock.ask()

    def after(self, response: Any) -> None:
        """Every answer goes through here before the client sees it."""
        self._clock.answer(failed=response.status_code in AGAIN)
        if self._clock.failures > MAX_FAILURES:
            raise NetworkError(
                f"{self.endpoint} has failed {self._clock.failures} times in a row; given up. Try later."
            )
        asked = _asked_to_wait(response.headers)
        if response.status_code in AGAIN and asked > self._clock.left(self.timeout):
            raise NetworkError(
                f"{self.endpoint} is busy ({response.status_code}) and asks to wait {asked:,} s, longer than we do. "
                "Try later, or with a longer --timeout."
            )
        onwards = response.has_redirect_location and urljoin(str(response.request.url), response.headers["location"])
        if onwards and _origin(onwards) == _origin(self.endpoint):
            return  # the client goes there, and what it finds there counts
        if response.request.method == "HEAD" and response.status_code < 400:
            self._check_names(response)

    def _check_names(self, response: Any) -> None:
        """Refuse what would become a path: the client makes file names of these headers and checks only one."""
        commit = response.headers.get("x-repo-commit")
        etag = response.headers.get("x-linked-etag") or response.headers.get("etag") or ""
        etag = etag.removeprefix("W/").strip('"')
        if commit is None:  # the client refuses that itself
            return
        if not settings.COMMIT.fullmatch(commit) or not 8 <= len(etag) <= 128 or not set(etag) <= ETAG:
            raise CheckpointError(f"{self.endpoint} gives a commit or an ETag that is not hexadecimal; refused.")
        length = None if response.is_redirect else response.headers.get("content-length")
        size = response.headers.get("x-linked-size") or length
        if self._expected is not None and size is not None and size.isdigit() and int(size) != self._expected[1]:
            name, expected = self._expected
            raise CheckpointError(f"{name} has {int(size):,} bytes on the Hub instead of the pinned {expected:,}.")


class _Clock(threading.local):
    """For how long requests of one thread have failed in a row."""

    since: float | None = None
    asked: float | None = None
    failures = 0

    def ask(self) -> None:
        if self.asked is not None and self.since is None:
            self.since = self.asked  # the request before had no answer at all
        self.asked = time.monotonic()

    def answer(self, failed: bool) -> None:
        self.since = (self.since or self.asked) if failed else None
        self.failures = self.failures + 1 if failed else 0
        self.asked = None

    def fail(self) -> None:
        self.since, self.asked = self.since or self.asked or time.monotonic(), None

    def troubled_for(self) -> float:
        began = self.since or self.asked
        return 0.0 if began is None else time.monotonic() - began

    def left(self, timeout: float) -> float:
        return timeout - self.troubled_for()


def _asked_to_wait(headers: Any) -> int:
    """Seconds, by either of the headers that the client obeys."""
    given = [
        headers.get("retry-after", ""),
        *re.findall(r"r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", headers.get("ratelimit", "")),
    ]
    return max((int(number) for number in given if number.isdigit()), default=0)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


class _Redact(logging.Filter):
    """The client prints what servers say, and a server could say the token; and two lines whenever it tries again, of
    which one will do."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = settings.redact(record.getMessage()), ()
        if _active is None:
            return True
        if wait := re.match(r"(?:Retrying in|Rate limited\. Waiting) ([\d.]+)s", record.msg):
            record.msg = f"{_active.endpoint} does not answer as it should. Trying again in {float(wait[1]):.0f} s."
        return " thrown while requesting " not in record.msg


def _install_hooks() -> None:
    """Have every client that the library makes from now on, by whatever factory is set, ask us first."""
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils import _http

    for handler in logging.getLogger("huggingface_hub").handlers:
        if not any(isinstance(found, _Redact) for found in handler.filters):
            handler.addFilter(_Redact())
    make = _http._GLOBAL_CLIENT_FACTORY
    if getattr(make, "rnnzoo", False):
        return

    def factory() -> Any:
        client = make()
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [*hooks["request"], _before],
            "response": [*hooks["response"], _after],
        }
        return client

    factory.rnnzoo = True  # type: ignore[attr-defined]
    set_client_factory(factory)


def _before(request: Any) -> None:
    if _active is not None:
        _active.before(request)


def _after(response: Any) -> None:
    if _active is not None:
        _active.after(response)


def _transport_errors() -> tuple[type[Exception], ...]:
    """The base of what the HTTP library raises, whichever of its versions the client uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return tuple(base for base in HfHubHTTPError.__bases__ if issubclass(base, Exception))


def _bar(name: str, limit: int, report: Report) -> type:
    """What the client takes for a progress bar; it also stops a body that is longer than it may be."""

    class Bar:
        def __init__(self, *_: Any, total: int | None = None, initial: int = 0, **__: Any):
            self.done, self.total = initial, total or limit

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.done > limit:
                raise CheckpointError(f"{name} has more than the {limit:,} bytes that it should have")
            report(self.done, self.total)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def close(self) -> None:
            pass

    return Bar
