"""Connects to a Hub through huggingface_hub, with every request and response checked by `guard`. Failures become ZooErrors."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...errors import AccessError, CheckpointError, HubError, ZooError, first_line
from ...utils import files
from ...utils.text import redact
from ...utils.version import __version__
from .. import configs
from . import cache, client_internals, settings
from .errors import CLIENT_ERRORS, explain
from .guard import GaveUp, Guard

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

T = TypeVar("T")
Log = Callable[[str], None]
LOG: Log = logging.getLogger("rnnzoo").warning
MAIN = "main"
"""The branch of a repository unless another is named."""
Report = Callable[[int, int], None]
"""Called with the number of bytes of a file received so far, and the file's size."""

LIBRARY: dict[str, Any] = {"library_name": "rnnzoo", "library_version": __version__}
MAX_TRIES = 4
"""Maximum number of tries of a call that fails for a temporary reason."""
MAX_BYTES = 10**9
"""Maximum size of a file whose size is not pinned."""

_active: "Connection | None" = None
"""The Connection that was entered last. The client's own threads, which send files, share it without entering it."""
_turn = threading.RLock()
"""Held by the thread that has entered a Connection, because the client's settings and hooks belong to the process."""


class Connection:
    """A connection to the Hub, open between __enter__ and __exit__. Connections of several threads take turns.

    timeout: seconds that all calls may take together; file transfers that advance do not count (default: settings.TIMEOUT).
    `api` is huggingface_hub's HfApi, for use within `call`. The constructor raises RequestError for an HF_ENDPOINT that is
    neither encrypted nor local; __enter__ raises AccessError for a token file that cannot be read.
    """

    def __init__(self, timeout: float | None = None, log: Log = LOG):
        self.endpoint, self.log = settings.endpoint(), log
        hint = "Try later." if timeout is None else "Try later, or with a longer timeout."
        self.guard = Guard(self.endpoint, settings.TIMEOUT if timeout is None else timeout, hint)

    def __enter__(self) -> Self:
        global _active
        constants = settings.constants()
        settings.check_certificates()
        from huggingface_hub import HfApi, get_token

        try:
            if (path := Path(constants.HF_TOKEN_PATH)).exists():
                files.open_regular(path).close()
            token = get_token()
        except (OSError, ValueError) as error:
            where = f"The token in {constants.HF_TOKEN_PATH} cannot be read ({first_line(error)})."
            raise AccessError(f"{where} Log in again: hf auth login.") from error
        if token is not None and not token.isascii():
            raise AccessError(
                "The token in HF_TOKEN, or in the token file, contains characters that are invalid in a token. Log in: hf auth login."
            )
        _turn.acquire()
        try:
            _redact_logs()
            client_internals.add_hooks(_Hooks())
            self.api = HfApi(endpoint=self.endpoint, **LIBRARY)
        except BaseException:
            _turn.release()
            raise
        # only the public Hub is sure to have the Xet servers
        xet_disabled = client_internals.disable_xet(True)
        client_internals.disable_xet(xet_disabled or self.endpoint != settings.PUBLIC)
        self._before = (xet_disabled, client_internals.disable_telemetry(True), _active)
        _active = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        global _active
        xet_disabled, telemetry_disabled, _active = self._before
        client_internals.disable_xet(xet_disabled)
        client_internals.disable_telemetry(telemetry_disabled)
        _turn.release()

    def renew(self) -> None:
        """Reset the time limit, for the next of several models."""
        self.guard.budget.renew()

    def call(self, subject: str, function: Callable[[], T], once: bool = False) -> T:
        """Call `function`, which uses the client, and return its result. subject: what the call is about, such as a repository.

        Unless `once`, try again after a temporary failure. (The client itself repeats many requests, but not after an
        incomplete body.) Raises the ZooError of `errors.explain`, whose message begins with `subject`, or of the guard.
        """
        expected: tuple[type[Exception], ...] = (*CLIENT_ERRORS, *client_internals.transport_errors())
        tries = 0
        with self.guard.calling():
            while True:
                try:
                    return function()
                except ZooError:
                    raise
                except expected as error:
                    problem, may_pass = explain(error, subject, self.endpoint)
                    # an answer that makes no sense, after failures, was probably an error page
                    may_pass |= type(problem) is HubError and self.guard.failures.number > 0
                    if not may_pass or once:
                        raise problem from error
                    wait = 2.0**tries
                    tries += 1
                    if tries == MAX_TRIES or isinstance(error, GaveUp) or wait > self.guard.budget.left():
                        spent = self.guard.budget.spent()
                        raise type(problem)(f"{problem} Gave up after {spent:.0f} s.") from error
                    self.log(f"{problem} Trying again in {wait:.0f} s.")
                    time.sleep(wait)

    def download(
        self, repo: str, name: str, revision: str | None, *, size: int | None = None, limit: int = MAX_BYTES,
        force: bool = False, report: Report = lambda done, size: None, repo_type: str = "model",
    ) -> Path:  # fmt: skip
        """Return the path of a file in the client's cache, after downloading the file if needed.

        name: the file's path in the repository. revision: a branch, tag or commit; None for the main branch. size: the
        pinned size in bytes, which the file must have exactly; None if it is not pinned. limit: the maximum size of a file
        that is not pinned. force: download even if the file is in the cache. report(done, size) is called during the
        download with the bytes received and the file's size. repo_type: "model" or "dataset". Raises the errors of `call`.
        """
        from huggingface_hub import hf_hub_download

        subject = f"{repo}: {name}"
        cache.repair(repo, repo_type)
        with self.guard.expecting(subject, size):
            return self.call(subject, lambda: Path(hf_hub_download(
                repo, name, revision=revision, endpoint=self.endpoint, force_download=force, repo_type=repo_type,
                tqdm_class=_progress_class(name, limit if size is None else size, report), **LIBRARY,
            )))  # fmt: skip

    def commit(self, repo: str, revision: str) -> str:
        """Return the commit that a branch, tag or commit points to.

        Raises MissingError if that commit has no config.json, HubError for an answer without a commit, and the errors of `call`.
        """
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url = hf_hub_url(repo, configs.FILE, revision=revision, endpoint=self.endpoint)
        metadata = self.call(f"{repo}@{revision}", lambda: get_hf_file_metadata(url, endpoint=self.endpoint, **LIBRARY))
        if metadata.commit_hash is None:
            raise HubError(f"{repo}@{revision}: {self.endpoint} does not answer like a Hub. Check HF_ENDPOINT.")
        return metadata.commit_hash

    def listing(self, repo: str, names: list[str], commit: str | None) -> "dict[str, RepoFile]":
        """Return, by name, the Hub's descriptions of the files in `names` that `commit` has; None is the main branch."""
        from huggingface_hub import RepoFile

        entries = self.call(repo, lambda: self.api.get_paths_info(repo, names, revision=commit))
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}


class _Hooks:
    """Passes the requests of the client to the guard of the active Connection, if there is one."""

    def request(self, request: Any) -> None:
        if _active is not None:
            _active.guard.check_request(request)

    def response(self, response: Any) -> None:
        if _active is not None:
            _active.guard.check_response(response)

    def failure(self, error: Exception) -> None:
        if _active is not None:
            _active.guard.check_failure(error)

    def operation(self, operate: Callable[[float | None], T], timeout: float | None, sent: int = 0) -> T:
        return operate(timeout) if _active is None else _active.guard.limit(operate, timeout, sent)


class _LogFilter(logging.Filter):
    """Redacts the client's log, since a server may have sent the token back, and joins the two lines about each retry."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), ()
        if _active is None:
            return True
        if client_internals.says_nothing_to_push(record.msg):  # rnnzoo says so itself
            return False
        seconds = client_internals.retry_seconds(record.msg)
        if seconds is not None:
            record.msg = f"{_active.endpoint} gave no answer, or a faulty one. Trying again in {seconds:.0f} s."
        return not client_internals.explains_retry(record.msg)


def _redact_logs() -> None:
    """Add the log filter to the client's handlers that lack it."""
    for handler in logging.getLogger("huggingface_hub").handlers:
        if not any(isinstance(each, _LogFilter) for each in handler.filters):
            handler.addFilter(_LogFilter())


def _progress_class(name: str, limit: int, report: Report) -> type:
    """Return a class to pass to the client in place of tqdm. It stops the download of the file `name` after `limit` bytes.

    report(done, total) is called for each chunk, with the bytes received so far and the size of the file, or `limit` if the
    size is unknown. The class raises CheckpointError to stop a download.
    """

    class Progress(AbstractContextManager["Progress"]):
        def __init__(self, *_: Any, total: int | None = None, initial: int = 0, **__: Any):
            self.done, self.total = initial, total or limit

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.done > limit:
                raise CheckpointError(
                    f"{name} is larger than the allowed {limit:,} bytes, so its download was stopped."
                )
            report(self.done, self.total)

        def __exit__(self, *_: object) -> None:
            pass

        def close(self) -> None:
            pass

    return Progress
