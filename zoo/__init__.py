"""rnnzoo: recurrent networks with pretrained weights and measured results.

`import zoo` is fast: a public name imports its module, and torch if that module needs it, when the name is first used.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from .utils.version import __version__ as __version__

if TYPE_CHECKING:
    from .data import examples as examples
    from .data.generation import generate as generate
    from .exports.writing import export as export
    from .networks.builder import build as build
    from .networks.checking import check_cell as check_cell
    from .networks.loading import load as load
    from .networks.network import Network as Network
    from .networks.torch_layers import from_torch as from_torch
    from .networks.torch_layers import to_torch as to_torch
    from .registry import Entry as Entry
    from .registry import find as spec  # noqa: F401
    from .registry import list_cells as list_cells
    from .registry import list_models as list_models
    from .registry import list_tasks as list_tasks
    from .registry.schema import Architecture as Architecture
    from .registry.schema import Config as Config
    from .registry.schema import ConvHead as Head  # noqa: F401
    from .registry.schema import Embedding as Embedding
    from .registry.schema import Init as Init
    from .registry.schema import Interface as Interface

_PUBLIC = {  # each public name, and the `module:attribute` where it is defined
    "Architecture": "registry.schema:Architecture", "Config": "registry.schema:Config",
    "Embedding": "registry.schema:Embedding", "Entry": "registry:Entry", "Head": "registry.schema:ConvHead",
    "Init": "registry.schema:Init", "Interface": "registry.schema:Interface", "Network": "networks.network:Network",
    "build": "networks.builder:build", "check_cell": "networks.checking:check_cell", "examples": "data:examples", "export": "exports.writing:export", "list_cells": "registry:list_cells",
    "list_models": "registry:list_models", "list_tasks": "registry:list_tasks", "generate": "data.generation:generate",
    "from_torch": "networks.torch_layers:from_torch", "load": "networks.loading:load", "spec": "registry:find",
    "to_torch": "networks.torch_layers:to_torch",
}  # fmt: skip

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve_name(f"{__name__}.{_PUBLIC[name]}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
