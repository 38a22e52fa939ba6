"""All layers of a dense stack at once: in wave s, layer l computes its time step s - l.

Layer l at time t needs layer l - 1 at time t and itself at t - 1, so everything on one diagonal of the (layer, time)
lattice is independent. A stack of L layers over T steps is then T + L - 1 batched products instead of T * L small ones.
The equations stay the cells' own: parameters stacked along a first dimension go through the same `step`.
"""

import copy
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from ...cells.base import State
from ...cells.projections import Projection
from ..layer import Direction, Layer
from .shared import altered, patched

Module = TypeVar("Module", bound=nn.Module)
BARE = frozenset(vars(nn.Module()))
"""Attributes that every module has."""


def supports(layers: Sequence[Layer]) -> bool:
    """Whether these layers can run as a wavefront: several, dense, alike, one direction, nothing between the equations."""
    directions = [d for layer in layers for d in layer.directions]
    kinds = {p.dtype for d in directions for p in d.parameters()}
    return (
        len(layers) == len(directions) > 1
        and len(kinds) == 1
        and all(
            d.cell.axis == -1
            and not d.regularised
            and not patched(d)
            and all(
                m.norm is None and m.mask is None and not altered(m) for m in d.modules() if isinstance(m, Projection)
            )
            for d in directions
        )
        and _alike([d.cell for d in directions])
        and _alike([d.input for d in directions[1:]])
    )


def _alike(modules: Sequence[nn.Module]) -> bool:
    """Whether these differ in the values of their parameters only, so that a copy of the first can stand for all."""
    kind = _kind(modules[0])
    return all(_kind(m) == kind for m in modules[1:])


def _kind(module: nn.Module) -> tuple[object, ...]:
    """A module's class, the shapes of its parameters, what else it computes by, and the same of its children."""
    own = {name: _comparable(v) for name, v in vars(module).items() if name not in BARE and v is not None}
    weights = {name: p.shape for name, p in module._parameters.items() if p is not None}
    children = {name: _kind(m) for name, m in module._modules.items() if m is not None}
    return type(module), weights, own, children


def _comparable(value: object) -> object:
    """What equals that of another layer if it means the same; a tensor, which nothing here stacks, equals none."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    return object() if isinstance(value, Tensor) else value


def scan(layers: Sequence[Layer], x: Tensor, state: Sequence[State]) -> tuple[list[Tensor], tuple[State, ...]]:
    """Run x: (time, batch, features) through `layers` from `state`; outputs of the top layer, and final states."""
    directions: list[Direction] = [layer.forward_direction for layer in layers]
    depth, steps = len(directions), len(x)
    cell = _stacked([d.cell for d in directions])
    between = _stacked([d.input for d in directions[1:]])
    for m in (m for m in cell.modules() if isinstance(m, Projection)):
        m.hold()  # for good: this stack is ours alone
    bottom = directions[0].input(x).unbind(0)
    idle = torch.zeros_like(bottom[0])
    stacked = tuple(torch.stack(parts) for parts in zip(*state, strict=True))  # (layers, batch, units)
    carried = cell.matched(stacked, idle.dtype)
    top: list[Tensor] = []
    for wave in range(steps + depth - 1):
        lowest = bottom[wave] if wave < steps else idle
        # the projection has no name, so that its memory is free again before the states that stay are allocated
        new = cell.step(cell.prepare(torch.cat([lowest.unsqueeze(0), between(carried[0][:-1])])), carried)
        done, reached = max(0, wave - steps + 1), min(depth, wave + 1)
        if reached - done < depth:  # layers that the wave has left, or not reached yet, keep their states
            pairs = zip(new, carried, strict=True)
            new = tuple(torch.cat([old[:done], n[done:reached], old[reached:]]) for n, old in pairs)
        carried = new
        if wave >= depth - 1:
            highest = carried[0][-1]  # a view: without a graph, a copy lets go of the layers below
            top.append(highest if highest.requires_grad else highest.clone())
    return top, tuple(zip(*(part.unbind(0) for part in carried), strict=True))


def _stacked(modules: Sequence[Module]) -> Module:
    """A copy of the first module whose parameters are those of all `modules` along a new first dimension."""
    stack = copy.copy(modules[0])
    children = {name: [m._modules[name] for m in modules] for name in modules[0]._modules}
    stack.__dict__["_modules"] = {n: None if cs[0] is None else _stacked(cs) for n, cs in children.items()}  # type: ignore[type-var]
    stack.__dict__["_parameters"] = {}
    for name in modules[0]._parameters:
        parts = [m._parameters[name] for m in modules]
        stack.__dict__[name] = None if parts[0] is None else torch.stack(parts)  # type: ignore[arg-type]
    return stack
