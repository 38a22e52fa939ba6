"""rnnzoo: a zoo of recurrent networks, with the numbers they were measured at.

`load`, `build`, `examples` and `Network` import torch when they are first used; the others never do.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .builder import build
    from .checkpoint import load
    from .network import Network
    from .registry import Entry, list_models
    from .registry import find as spec
    from .specs import Architecture, Config, Embedding, Head, Init, Interface
    from .tasks import examples

__all__ = [
    "Architecture",
    "Config",
    "Embedding",
    "Entry",
    "Head",
    "Init",
    "Interface",
    "Network",
    "build",
    "examples",
    "list_models",
    "load",
    "spec",
]

_HOMES = {
    "load": ("checkpoint", "load"),
    "build": ("builder", "build"),
    "spec": ("registry", "find"),
    "list_models": ("registry", "list_models"),
    "examples": ("tasks", "examples"),
    "Entry": ("registry", "Entry"),
    "Network": ("network", "Network"),
    "Architecture": ("specs", "Architecture"),
    "Config": ("specs", "Config"),
    "Embedding": ("specs", "Embedding"),
    "Head": ("specs", "Head"),
    "Init": ("specs", "Init"),
    "Interface": ("specs", "Interface"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    return getattr(import_module(f".{module}", __name__), attribute)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
