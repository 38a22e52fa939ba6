"""Checks of what users pass to public functions, so that a wrong type ends in a RequestError and not deep inside."""

import os
from collections.abc import Collection, Sequence, Set

from ..errors import RequestError, UnknownNameError, shown


def check_name(kind: str, name: object, known: Collection[str], hint: str = "") -> None:
    """Raise UnknownNameError unless `name` is one of `known`, and RequestError if it is no text at all.

    kind: what the names are names of, such as "model". hint: the end of the message.
    """
    if not isinstance(name, str):
        raise RequestError(f"The name of a {kind} is a text; got {shown(name)}.")
    if name not in known:
        raise UnknownNameError(kind, name, known, hint)


def text_of(title: str, value: object) -> str:
    """Return `value`. Raises RequestError unless it is a text. title: what the value is, for the message."""
    if not isinstance(value, str):
        raise RequestError(f"{title} is a text; got {shown(value)}.")
    return value


def texts_of(title: str, value: object) -> tuple[str, ...]:
    """Return a text, or a list of texts, as a tuple. Raises RequestError for anything else. title: as for `text_of`."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence | Set) or not all(isinstance(each, str) for each in value):
        raise RequestError(f"{title} is a text, or a list of texts; got {shown(value)}.")
    return tuple(value)


def path_of(title: str, value: object) -> str:
    """Return a path as a text. Raises RequestError for what no path can be. title: as for `text_of`."""
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or "\0" in path:
        raise RequestError(f"{title} is a text or a path; got {shown(value)}.")
    return path
