"""Every error rnnzoo raises on purpose. Each says what was wrong, where, and what to do next, in one or two lines.

`exit_code` is what the command line returns for it: 2 when the request was wrong, 1 when the work failed.
"""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class ZooError(Exception):
    """Base of all errors below; catching it catches everything rnnzoo raises on purpose."""

    exit_code = 1


class RequestError(ZooError, ValueError):
    """The request cannot be carried out as asked: an option, a value or a combination that makes no sense."""

    exit_code = 2


class UnknownNameError(RequestError, KeyError):
    """A name that is not in a table; the message carries up to three near matches."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        matches = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
        near = f" Did you mean {' or '.join(matches)}?" if matches else ""
        super().__init__(f"No {kind} is called {name!r}.{near}{' ' + hint if hint else ''}")

    def __str__(self) -> str:  # KeyError would show the repr
        return str(self.args[0])


class RegistryError(ZooError):
    """registry.yaml is not what the schema asks for; the message has file, line and column."""

    exit_code = 2


class SizeError(RequestError):
    """The model is larger than the bound that is checked before memory is taken."""


class CheckpointError(ZooError):
    """Weights or their config.json are missing, damaged, or belong to another architecture."""


class HubError(CheckpointError):
    """The Hub could not give or take a checkpoint: its answer makes no sense, or it refuses what was sent."""


class NetworkError(HubError):
    """The Hub cannot be reached, breaks off, or fails for longer than we wait."""


class AccessError(HubError):
    """There is no token, the Hub does not accept it, or it may not do this; or the repository is gated."""


class MissingError(HubError):
    """What was asked for is not on the Hub: a repository or a revision (exit code 2), or a file of one (1)."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


class ChangedError(HubError):
    """The remote repository is not what it was: somebody else has pushed, or a tag is already elsewhere."""


class StorageError(ZooError):
    """A file cannot be written or read where it should be: no space, no permission, no folder."""


class DataError(ZooError):
    """A dataset file is missing or is not, byte for byte, the pinned one."""


class TrainingError(ZooError):
    """Training cannot start, cannot go on (a diverged run), or cannot be resumed."""


class BenchmarkError(ZooError):
    """A contender of a benchmark failed, so that there is nothing to compare."""


def first_problem(error: "ValidationError") -> str:
    """The first thing that a specification was refused for, `where: what`."""
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, "))))


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class MissingExtraError(ZooError):
    """An optional dependency is needed for this; the message has the command that installs it."""

    exit_code = 2

    def __init__(self, package: str, extra: str):
        super().__init__(f"This needs {package}, which is not installed. Try: pip install 'rnnzoo[{extra}]'")
