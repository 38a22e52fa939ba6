"""The private names of torch that `zoo` uses, all of them in this file. They were tried with torch 2.13.0.

torch may change them without notice, and has no public names that do the same. Then only this file has to change.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch._higher_order_ops.scan import scan, scan_op
from torch._ops import OpOverload as OpOverload
from torch.autograd import forward_ad

Module = TypeVar("Module", bound=nn.Module)
Function = TypeVar("Function", bound=Callable[..., Any])

loop: Callable[..., tuple[Any, ...]] = scan_op
"""The operator of a loop over time, which torch.export keeps as one operator: loop(step, state, inputs, constants), with lists
of tensors for the last three. step(*state, *inputs of one step, *constants) returns the new state, then what to stack."""
traced_loop: Callable[..., tuple[Any, Any]] = scan
"""The same operator for code that dynamo traces: traced_loop(step, state, inputs). dynamo finds the constants of `step`."""
has_storage = torch._C._has_storage
"""Return whether a tensor has memory. A wrapper made by torch.func.vmap is a Tensor without memory."""
is_functional = torch._is_functional_tensor
"""Return whether a tensor belongs to torch's functionalization, for example while torch.export traces."""
transforms_active = torch._C._are_functorch_transforms_active
"""Return whether a transform of torch.func (grad, vmap, jvp, ...) is running."""
global_module_hooks_active = nn.modules.module._has_any_global_hook
"""Return a true value if global hooks, which run for every module, are registered."""


def is_mapped(tensor: torch.Tensor) -> bool:
    """Return whether torch.func.vmap maps over this tensor, so that its values cannot be read."""
    if torch.compiler.is_compiling() or not transforms_active():
        return False
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def schema(operation: OpOverload) -> Any:
    """Return the names and defaults of an operation's arguments, and whether it changes one of them."""
    return operation._schema


def within_compiled(module: nn.Module) -> nn.Module | None:
    """Return the module that torch.compile wrapped in `module`, or None if `module` is no such wrapper."""
    return getattr(module, "_orig_mod", None)


def constant_result(function: Function) -> Function:
    """Have dynamo take a function's result for a constant: torch.compiler.assume_constant_result, which imports dynamo first.

    That import takes longer than all others of `load`.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def compiling_to_run() -> bool:
    """Return whether torch.compile traces the code, and not torch.export, during which dynamo may run as well."""
    return torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting()


def forward_mode_active() -> bool:
    """Return whether torch.autograd.forward_ad.dual_level is entered."""
    return forward_ad._current_level >= 0


def dispatch_mode_active() -> bool:
    """Return whether a TorchDispatchMode is active, such as one that counts operations."""
    return torch._C._len_torch_dispatch_stack() > 0


def saved_tensor_hooks_active() -> bool:
    """Return whether hooks receive the tensors that autograd saves, as in checkpointing and offloading."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def forward_hooks(module: nn.Module) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return a module's forward pre-hooks and its forward hooks, as torch's own dictionaries, not copies."""
    return module._forward_pre_hooks, module._forward_hooks


def all_hooks(module: nn.Module) -> tuple[dict[int, Any], ...]:
    """Return a module's forward pre-hooks, forward hooks, backward pre-hooks and backward hooks, as torch's dictionaries."""
    return (*forward_hooks(module), module._backward_pre_hooks, module._backward_hooks)


def has_hooks(module: nn.Module) -> bool:
    """Return whether a hook of this module runs in its forward or backward pass."""
    return any(all_hooks(module))


def children(module: nn.Module) -> dict[str, nn.Module | None]:
    """Return torch's own dictionary of a module's submodules by name. `named_children` would give a copy."""
    return module._modules


def parameters(module: nn.Module) -> dict[str, nn.Parameter | None]:
    """Return torch's own dictionary of a module's parameters by name, without submodules; it includes those that are None."""
    return module._parameters


def shallow_copy(module: Module, submodules: dict[str, nn.Module | None], parameters: dict[str, Any]) -> Module:
    """Return a copy of a module with the given submodules and parameters. It shares everything else with the original.

    torch.func.functional_call would change the module itself during the call, which other threads could see.
    """
    twin = copy.copy(module)
    twin._modules, twin._parameters = submodules, parameters
    return twin
