"""Every error that rnnzoo raises on purpose. A message says in one or two lines what is wrong and what to do."""

import difflib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class ZooError(Exception):
    """Base class of all errors that rnnzoo raises on purpose."""

    exit_code = 1  # the exit status of the command line: 2 if the request was wrong, 1 if the work failed

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, Any]]:
        """Pickle the message instead of the arguments of a subclass, so that errors can cross from one process to another."""
        return _unpickled, (type(self), str(self)), vars(self)


def _unpickled(kind: type[ZooError], message: str) -> ZooError:
    error = kind.__new__(kind)
    error.args = (message,)
    return error


class RequestError(ZooError, ValueError):
    """An option, a value, or a combination of options is invalid."""

    exit_code = 2


class UnknownNameError(RequestError, KeyError):
    """A name is unknown. The message suggests up to three names of the same kind that contain it or resemble it."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = ""):
        names = {each.lower(): each for each in known}
        longer = sorted((each for each in names if name and name.lower() in each), key=len)
        matches = [
            names[each] for each in longer[:3] or difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        ]
        near = f" Did you mean {' or '.join(matches)}?" if matches else ""
        if not matches and not hint:
            hint = f"There are: {', '.join(sorted(names.values()))}."
        super().__init__(f"No {kind} is called {shown(name)}.{near}{' ' + hint if hint else ''}")

    __str__ = Exception.__str__  # KeyError's own would put the message in quotes


class RegistryError(ZooError):
    """registry.yaml, sources.yaml or a JSON file in cards/ is invalid. The message gives the file and, for YAML, the line."""

    exit_code = 2


class CellError(ZooError):
    """A cell of one's own lacks a property that networks rely on. The message says which."""


class SizeError(RequestError):
    """The model has more parameters than allowed. Raised before memory is allocated."""


class CheckpointError(ZooError):
    """Weights or config.json are missing, damaged, or belong to another architecture."""


class HubError(CheckpointError):
    """The Hub refused a request, or its answer cannot be understood."""


class NetworkError(HubError):
    """The Hub cannot be reached, closes the connection, or still fails when the timeout ends."""


class AccessError(HubError):
    """The token is missing or invalid or lacks a permission, or access to the repository must be requested first."""


class MissingError(HubError):
    """The Hub has no such repository or revision (exit code 2), or the revision lacks a file (exit code 1)."""

    def __init__(self, message: str, exit_code: int = 2):
        super().__init__(message)
        self.exit_code = exit_code


class ChangedError(HubError):
    """The repository on the Hub has changed: somebody else pushed to it, or a tag points to another commit."""


class StorageError(ZooError):
    """A file cannot be read or written: the disk is full, access is denied, a folder is missing, or the lock is taken."""


class DataError(ZooError):
    """A dataset file is missing or unreadable, or its sha256 differs from the one in cards/lock.json."""


class TrainingError(ZooError):
    """Training cannot start or resume, or has diverged."""


class ExportError(ZooError):
    """A network could not be exported, or the file's outputs differed from the network's and the file was deleted."""


class BenchmarkError(ZooError):
    """An implementation failed in a benchmark, so there is nothing to compare."""


def faults(error: "ValidationError") -> str:
    """Return the faults in a pydantic error as one line, `field: fault; field: fault.`: the first five, then how many more."""
    rows = error.errors()
    texts = [": ".join(filter(None, (".".join(map(str, row["loc"])), row["msg"]))) for row in rows[:5]]
    text = "; ".join([*texts, *([f"and {len(rows) - 5} more"] if len(rows) > 5 else [])])
    return text if text.endswith((".", "?")) else f"{text}."


def shown(value: object) -> str:
    """Return the repr of a value for a message: one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if the message is empty."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


class MissingExtraError(ZooError):
    """An optional dependency is missing. The message gives the command that installs it."""

    exit_code = 2

    def __init__(self, package: str, extra: str):
        super().__init__(f"This needs {package}, which is not installed. Try: pip install 'rnnzoo[{extra}]'")
