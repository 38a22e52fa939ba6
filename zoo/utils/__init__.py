"""Helpers that do not depend on networks: paths, files and locks, signals, provenance, figures, text."""

from importlib import import_module
from typing import Any


def import_object(path: str, package: str) -> Any:
    """Import and return the object at `path`. Raises ImportError or AttributeError if there is none.

    path: `module.Name`, where the module is in `package`, or `package.module:Name` of any installed package.
    """
    module, _, name = path.rpartition(":" if ":" in path else ".")
    return getattr(import_module(module if ":" in path else f"{package}.{module}"), name)
