"""What the fused scans have in common: which layers they can take over, their parameters, gradients of gradients."""

import copy
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from ...cells.base import State
from ...cells.projections import Dense, Projection
from ...checkpoints.tokenizer import PADDING
from ..layer import Direction, stacked
from .plans import Plan, planned

Module = TypeVar("Module", bound=nn.Module)
Held = Mapping[nn.Module, tuple[Tensor | None, Tensor | None]]


def maps(direction: Direction, made: Plan) -> list[Projection]:
    """The input map and those of the products, in order."""
    return [direction.input, *(product.map for product in made.products)]


def parameters(direction: Direction, made: Plan) -> list[Tensor | None]:
    """Weight and bias of the input map, then of every product."""
    return [p for m in maps(direction, made) for p in (m.weight, m.bias)]


def operands(direction: Direction, made: Plan) -> list[Tensor | None]:
    """As `parameters`, and where a form makes a map's matrix of its weight, that: what a scan computes with."""
    return [p for m in maps(direction, made) for p in (m.matrix, m.bias)]


def only_equations(direction: Direction, made: Plan, x: Tensor) -> bool:
    """Whether running this dense layer on x is its equations and no more, on tensors that lie in memory."""
    return (
        in_memory(x)
        and not watched()
        and not direction.regularised
        and direction.cell.axis == -1
        and not patched(direction)
        and not patched(direction.cell)
        and all(_is_a_product(m) for m in maps(direction, made))
    )


def _is_a_product(m: Projection) -> bool:
    """Whether a map is W s + b of a matrix, and not what somebody has made of it since."""
    return type(m) is Dense and m.norm is None and not altered(m)


def in_memory(tensor: Tensor) -> bool:
    """Whether a tensor is its numbers and nothing else, such as many at once, a tracer or a user's own kind."""
    return type(tensor) in (Tensor, nn.Parameter) and torch._C._has_storage(tensor)


def watched() -> bool:
    """Whether something looks at every single operation now: compilation, tracing, torch.func, forward-mode AD, or a
    TorchDispatchMode, such as that which counts operations."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined]
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
        or torch._C._len_torch_dispatch_stack() > 0
    )


anywhere = nn.modules.module._has_any_global_hook
"""Whether there are hooks of every module."""


def patched(module: nn.Module) -> bool:
    """Whether a method was replaced, of this one module and not of its class."""
    return any(name in module.__dict__ for name in ("forward", "product", "step", "prepare", "scan"))


def altered(module: nn.Module) -> bool:
    """Whether more is to happen when the module is called than a fused scan does: a hook, a parametrised weight, or a method
    of one's own."""
    hooks = (
        module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks,
    )  # fmt: skip
    return any(hooks) or "parametrizations" in module._modules or bool(anywhere()) or patched(module)


def differentiable(
    directions: Sequence[Direction],
    of: Sequence[Tensor | None],
    wanted: Sequence[bool],
    given: Sequence[Tensor | None],
    lengths: Tensor | None,
    truncate: int | None,
    tokens: Tensor | None = None,
) -> list[Tensor | None]:
    """Gradients of the `wanted` ones `of` a stack's x, initial states and parameters, by the plain scan.

    They come as functions that can be differentiated again, where gradients are enabled. given: gradients of the top
    layer's outputs and of the final states, layer after layer. tokens: which rows of x the stack reads, where it does
    not read x itself.
    """
    count = 1 + sum(len(direction.cell.states) for direction in directions)
    ends: list[Tensor] = []
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # one of them may be computed from another; no alias is, so that the gradient by each is the partial one
        of = [t if t is None else t.view_as(t) for t in of]
        x, states, weights = of[0], iter(of[1:count]), iter(of[count:])
        assert x is not None
        if tokens is not None:
            x = nn.functional.embedding(tokens, x, PADDING)
        for direction in directions:
            start: State = tuple(next(states) for _ in direction.cell.states)  # type: ignore[misc]
            own: Held = {m: (next(weights), next(weights)) for m in maps(direction, planned(direction.cell))}
            outputs, end = _holding(direction, own).scan(x, start, lengths, truncate)
            x = stacked(outputs)
            ends += end
        pairs = [(o, g) for o, g in zip((x, *ends), given, strict=True) if g is not None and o.requires_grad]
        if not pairs:
            return [None] * len(wanted)
        inputs = [t for t, want in zip(of, wanted, strict=True) if want]
        values, slopes = zip(*pairs, strict=True)
        grads = torch.autograd.grad(values, inputs, slopes, create_graph=again, allow_unused=True)  # type: ignore[arg-type]
    found = iter(grads)
    return [next(found) if want else None for want in wanted]


def _holding(module: Module, values: Held) -> Module:
    """A copy of a module as it was when the scan ran: not regularised, and its maps with the matrices and biases of then."""
    twin = copy.copy(module)
    twin.__dict__.update({"training": False, "zoneout": 0.0})
    children = {name: None if m is None else _holding(m, values) for name, m in module._modules.items()}
    twin.__dict__["_modules"] = children
    if module in values:
        twin.__dict__["_parameters"] = {}
        twin.__dict__["weight"], twin.__dict__["bias"] = values[module]
        twin.__dict__["form"] = None  # the matrix is there
    return twin
