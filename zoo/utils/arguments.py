"""Checks of what users pass to public functions, so that a wrong type ends in a RequestError and not deep inside."""

import fnmatch
import os
from collections.abc import Collection, Iterable, Sequence, Set
from typing import Any

from ..errors import RequestError, UnknownNameError, shown


def check_name(kind: str, name: object, known: Collection[str], hint: str = "") -> None:
    """Raise UnknownNameError unless `name` is one of `known`, and RequestError if it is not a string.

    kind: what `name` is a name of, such as "model", for the message. hint: the end of the message.
    """
    if not isinstance(name, str):
        raise RequestError(f"The name of a {kind} must be a string; got {shown(name)}.")
    if name not in known:
        raise UnknownNameError(kind, name, known, hint)


def text_of(title: str, value: object) -> str:
    """Return `value`. Raises RequestError unless it is a string. title: what `value` is, for the message."""
    if not isinstance(value, str):
        raise RequestError(f"{title} must be a string; got {shown(value)}.")
    return value


def texts_of(title: str, value: object) -> tuple[str, ...]:
    """Return `value`, a string or list of strings, as a tuple. Raises RequestError for other types. title: as for `text_of`."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence | Set) or not all(isinstance(each, str) for each in value):
        raise RequestError(f"{title} must be a string or a list of strings; got {shown(value)}.")
    return tuple(value)


def plain(value: Any) -> Any:
    """Return a number or an array of NumPy as a number or a list of Python's, and anything else as it is."""
    return value.tolist() if type(value).__module__ == "numpy" else value


def is_pattern(name: str) -> bool:
    """Return whether `name` contains a wildcard: *, ? or [."""
    return bool(set(name) & set("*?["))


def matching(names: Iterable[str], pattern: object, exclude: object = ()) -> list[str]:
    """Return the names that match `pattern`, or one of several shell-style patterns, and none of those in `exclude`, in order.

    Raises RequestError if the patterns are anything but a string or a list of strings.
    """
    wanted, unwanted = texts_of("A pattern", pattern), texts_of("A pattern to exclude", exclude)

    def fits(name: str, patterns: tuple[str, ...]) -> bool:
        return any(fnmatch.fnmatchcase(name, each) for each in patterns)

    return [name for name in names if fits(name, wanted) and not fits(name, unwanted)]


def path_of(title: str, value: object) -> str:
    """Return `value`, a path, as a string. Raises RequestError for other types and null characters. title: as for `text_of`."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise RequestError(f"{title} must be a string or a path; got {shown(value)}.")
    if "\0" in path and not path.startswith("hf://"):  # of an address, the part that it is in is checked
        raise RequestError(f"{title} must not have a null character; got {shown(value)}.")
    return path
