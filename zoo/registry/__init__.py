"""The registry: what registry.yaml may say (schema/), how it is read, what it knows, and the lock that programs write.

Nothing here imports torch. The names below import their modules at first use, so that `index`, which lists the models, does
not wait for the schema.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalogue import Entry as Entry
    from .catalogue import clear_caches as clear_caches
    from .catalogue import find as find
    from .catalogue import list_models as list_models
    from .catalogue import load_registry as load_registry
    from .catalogue import models as models
    from .catalogue import summaries as summaries
    from .lock import load_lock as load_lock

__all__ = ["Entry", "clear_caches", "find", "list_models", "load_lock", "load_registry", "models", "summaries"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".lock" if name == "load_lock" else ".catalogue", __name__), name)
