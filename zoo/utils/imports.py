"""What a table names by its path, imported when it is asked for."""

from importlib import import_module
from typing import Any


def import_object(path: str, package: str) -> Any:
    """`module.Name` within a package of ours, or `package.module:Name` of anyone's. Raises ImportError, AttributeError."""
    ours = ":" not in path
    module, _, name = path.rpartition("." if ours else ":")
    return getattr(import_module(f"{package}.{module}" if ours else module), name)
