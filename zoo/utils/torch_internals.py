"""Every private name of torch that rnnzoo uses, in one place. Tried with torch 2.13.0; torch promises none of them.

Each function says why no public name does. When a new torch breaks one, this is the only file to change.
"""

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

Module = TypeVar("Module", bound=nn.Module)


def has_storage(tensor: Tensor) -> bool:
    """Return whether a tensor has memory of its own; a wrapper made by torch.func.vmap has the type Tensor but none."""
    return torch._C._has_storage(tensor)


def is_functional(tensor: Tensor) -> bool:
    """Return whether a tensor belongs to torch's functionalization, as while torch.export traces."""
    return torch._is_functional_tensor(tensor)


def transforms_active() -> bool:
    """Return whether a torch.func transform (grad, vmap, jvp, ...) runs. torch.func has no public query."""
    return torch._C._are_functorch_transforms_active()


def forward_mode_active() -> bool:
    """Return whether torch.autograd.forward_ad.dual_level is entered."""
    return forward_ad._current_level >= 0


def dispatch_mode_active() -> bool:
    """Return whether a TorchDispatchMode, such as one that counts operations, sees every operation."""
    return torch._C._len_torch_dispatch_stack() > 0


def saved_tensor_hooks_active() -> bool:
    """Return whether hooks take what autograd saves, as those of checkpointing and offloading do."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


global_module_hooks_active = nn.modules.module._has_any_global_hook
"""Return something true if torch.nn.modules.module holds hooks that run for every module. Not wrapped: a stream asks at
every step."""


def forward_hooks(module: nn.Module) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the dictionaries of a module's forward hooks. They stay the same objects while hooks come and go."""
    return module._forward_pre_hooks, module._forward_hooks


def has_hooks(module: nn.Module) -> bool:
    """Return whether a hook of this module runs in its forward or backward pass."""
    return bool(
        module._forward_pre_hooks or module._forward_hooks or module._backward_pre_hooks or module._backward_hooks
    )


def children(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return the dictionary in which a module keeps its submodules, not a copy as `named_children` gives."""
    return module._modules


def parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return the dictionary in which a module keeps its own parameters, those that are None included."""
    return module._parameters


def shallow_copy(module: Module, submodules: dict[str, nn.Module | None], parameters: dict[str, Any]) -> Module:
    """Return a copy of a module with other submodules and parameters; it shares everything else with the original.

    torch.func.functional_call would exchange the parameters in the module itself for the time of the call, and another
    thread that runs the same module meanwhile would see them.
    """
    twin = copy.copy(module)
    twin._modules, twin._parameters = submodules, parameters
    return twin
