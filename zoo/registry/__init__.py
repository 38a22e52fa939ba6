"""The registry: what registry.yaml and sources.yaml may contain (schema/), how it is read, and cards/lock.json, which programs write.

No module here imports torch. The names in __all__ import their modules when they are first used, so that importing
`zoo.registry.index`, which lists the models, does not import the schema and pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import (
        Entry,
        clear_caches,
        find,
        list_cells,
        list_models,
        list_tasks,
        load_registry,
        models,
        summaries,
        unknown_model,
    )
    from .lock import load_lock

__all__ = [
    "Entry",
    "clear_caches",
    "find",
    "list_cells",
    "list_models",
    "list_tasks",
    "load_lock",
    "load_registry",
    "models",
    "summaries",
    "unknown_model",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".lock" if name == "load_lock" else ".catalogue", __name__), name)
