"""The registry: what registry.yaml may say (schema/), how it is read, what it knows, and the lock that programs write.

Nothing here imports torch.
"""

from .catalogue import Entry, clear_caches, find, list_models, load_registry, models
from .lock import load_lock

__all__ = ["Entry", "clear_caches", "find", "list_models", "load_lock", "load_registry", "models"]
