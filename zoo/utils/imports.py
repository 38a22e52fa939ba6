"""Imports objects that a table names by path, when they are first needed."""

from importlib import import_module
from typing import Any


def import_object(path: str, package: str) -> Any:
    """Import and return an object. Raises ImportError and AttributeError.

    path: `module.Name`, relative to `package`, or `anywhere.module:Name` for any installed package.
    """
    if ":" in path:
        module, _, name = path.rpartition(":")
    else:
        relative, _, name = path.rpartition(".")
        module = f"{package}.{relative}"
    return getattr(import_module(module), name)
