"""Every error that rnnzoo raises on purpose. A message says what was wrong, where, and what to do next, in one or two lines.

`exit_code` is what the command line exits with: 2 if the request was wrong, 1 if the work failed.
"""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class ZooError(Exception):
    """Base of all errors below."""

    exit_code = 1


class RequestError(ZooError, ValueError):
    """The request makes no sense: an option, a value or a combination of them is invalid."""

    exit_code = 2


class UnknownNameError(RequestError, KeyError):
    """A name is not in its table. The message has up to three near matches."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
        near = f" Did you mean {' or '.join(matches)}?" if matches else ""
        super().__init__(f"No {kind} is called {name!r}.{near}{' ' + hint if hint else ''}")

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0])


class RegistryError(ZooError):
    """registry.yaml does not fit its schema. The message has file, line and column."""

    exit_code = 2


class SizeError(RequestError):
    """The model has more parameters than allowed. This is checked before memory is allocated."""


class CheckpointError(ZooError):
    """Weights or config.json are missing, damaged, or belong to another architecture."""


class HubError(CheckpointError):
    """The Hub could not deliver or accept a checkpoint: its answer makes no sense, or it refuses the request."""


class NetworkError(HubError):
    """The Hub cannot be reached, breaks off the connection, or fails for longer than the timeout."""


class AccessError(HubError):
    """The token is missing, invalid, or not allowed to do this; or the repository is gated."""


class MissingError(HubError):
    """A repository or a revision (exit code 2), or a file of one (exit code 1), is not on the Hub."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


class ChangedError(HubError):
    """The remote repository has changed: somebody else has pushed, or a tag is at another commit."""


class StorageError(ZooError):
    """A file cannot be written or read: no space, no permission, no folder, or another process holds its lock."""


class DataError(ZooError):
    """A dataset file is missing, or its bytes are not the pinned ones."""


class TrainingError(ZooError):
    """Training cannot start, diverged, or cannot be resumed."""


class BenchmarkError(ZooError):
    """A contender of a benchmark failed, so there is nothing to compare."""


def first_problem(error: "ValidationError") -> str:
    """Return the first problem of a rejected specification as `where: what`."""
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "))))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class if the text is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class MissingExtraError(ZooError):
    """An optional dependency is missing. The message has the command that installs it."""

    exit_code = 2

    def __init__(self, package: str, extra: str):
        super().__init__(f"This needs {package}, which is not installed. Try: pip install 'rnnzoo[{extra}]'")
