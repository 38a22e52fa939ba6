"""What the fused scans have in common: which layers they can take over, their parameters, gradients of gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..cells.base import Map, State
from ..recurrence import Direction, Rows, Steps, stacked
from .plans import Plan

PADDING = 0
"""The token whose vector is zero and gets no gradient."""


def maps(direction: Direction, made: Plan) -> list[Map]:
    """The input map and those of the products, in order."""
    return [direction.input, *(product.map for product in made.products)]


def parameters(direction: Direction, made: Plan) -> list[Tensor | None]:
    """Weight and bias of the input map, then of every product."""
    return [p for m in maps(direction, made) for p in (m.weight, m.bias)]


def only_equations(direction: Direction, made: Plan, x: Steps) -> bool:
    """Whether running this dense layer on x is its equations and no more, on tensors that lie in memory."""
    return (
        type(x) in (Tensor, nn.Parameter, Rows)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined]
        and not torch._C._are_functorch_transforms_active()
        and not direction.regularised
        and direction.cell.axis == -1
        and direction.input.norm is None
        and not any(hooked(m) for m in (direction, direction.cell, *maps(direction, made)))
    )


def hooked(module: nn.Module) -> bool:
    """Whether something (pruning, a user's hook) is to happen when the module is called, as a fused scan does not."""
    return bool(module._forward_pre_hooks or module._forward_hooks or module._backward_hooks)


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

    They come as functions that can be differentiated again. given: gradients of the top layer's outputs and of the
    final states, layer after layer. tokens: which rows of x the stack reads, where it does not read x itself.
    """
    x, states = of[0], iter(of[1:])
    assert x is not None
    if tokens is not None:
        x = nn.functional.embedding(tokens, x, PADDING)
    ends: list[Tensor] = []
    for direction in directions:
        start: State = tuple(next(states) for _ in direction.cell.states)  # type: ignore[misc]
        outputs, end = direction.scan(x, start, lengths, truncate)
        x = stacked(outputs)
        ends += end
    pairs = [(o, g) for o, g in zip((x, *ends), given, strict=True) if g is not None]
    inputs = [t for t, want in zip(of, wanted, strict=True) if want]
    values, slopes = zip(*pairs, strict=True)
    grads = torch.autograd.grad(values, inputs, slopes, create_graph=True, allow_unused=True)  # type: ignore[arg-type]
    found = iter(grads)
    return [next(found) if want else None for want in wanted]
