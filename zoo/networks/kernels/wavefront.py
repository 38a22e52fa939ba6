"""Runs all layers of a dense stack at once: in wave s, layer l computes its time step s - l.

Layer l at time t needs layer l - 1 at time t and itself at t - 1, so all nodes on one diagonal of the (layer, time) lattice
are independent. A stack of L layers over T steps then takes T + L - 1 batched products instead of T * L small products. The
equations are the cells' own: the cell's `step` runs with parameters that are stacked along a new first dimension.
"""

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from ...cells.base import Cell, RawInputCell, State, matched
from ...cells.projections import Projection
from ...utils import torch_internals
from ..layer import Direction, Layer
from ..signature import signature
from .shared import customised, overridden

Module = TypeVar("Module", bound=nn.Module)


def supports(layers: Sequence[Layer]) -> bool:
    """Return whether `layers` can run as a wavefront.

    They can if there are at least two layers, of one direction, dense and alike, made of projections alone, without zoneout, norms
    or hooks.
    """
    directions = [d for layer in layers for d in layer.directions]
    dtypes = {p.dtype for d in directions for p in d.parameters()}
    return (
        len(layers) == len(directions) > 1
        and len(dtypes) == 1
        and all(_is_dense_equations(d) for d in directions)
        and _are_alike([d.cell for d in directions])
        and _are_alike([d.input for d in directions[1:]])
    )


def _is_dense_equations(direction: Direction) -> bool:
    projections = [m for m in direction.modules() if isinstance(m, Projection)]
    return (
        direction.cell.axis == -1
        and not isinstance(direction.cell, RawInputCell)
        and not direction.regularised
        and not overridden(direction)
        and all(isinstance(m, Direction | Cell | Projection | nn.ModuleList) for m in direction.modules())
        and all(m.norm is None and m.mask is None and not customised(m) for m in projections)
    )


def _are_alike(modules: Sequence[nn.Module]) -> bool:
    """Return whether modules differ only in their parameters' values, so that one copy of the first can compute them all."""
    return len({signature(m) for m in modules}) == 1


def scan(layers: Sequence[Layer], x: Tensor, state: Sequence[State]) -> tuple[list[Tensor], tuple[State, ...]]:
    """Return the top layer's outputs and all final states for x, (time, batch, features), and the initial `state`."""
    directions: list[Direction] = [layer.forward_direction for layer in layers]
    depth, steps = len(directions), len(x)
    cell = _stacked([d.cell for d in directions])
    between = _stacked([d.input for d in directions[1:]])
    for m in (m for m in cell.modules() if isinstance(m, Projection)):
        m.hold()  # nothing releases it: this copy lives as long as this call
    bottom = directions[0].input(x).unbind(0)
    idle = torch.zeros_like(bottom[0])
    stacked = tuple(torch.stack(parts) for parts in zip(*state, strict=True))  # (layers, batch, units)
    carried = matched(cell, stacked, idle.dtype)
    top: list[Tensor] = []
    for wave in range(steps + depth - 1):
        lowest = bottom[wave] if wave < steps else idle
        # the projected input has no name, so that its memory is free again before the new states are allocated
        new = cell.step(cell.prepare(torch.cat([lowest.unsqueeze(0), between(carried[0][:-1])])), carried)
        done, reached = max(0, wave - steps + 1), min(depth, wave + 1)
        if reached - done < depth:  # layers that the wave has left, or not reached yet, keep their states
            pairs = zip(new, carried, strict=True)
            new = tuple(torch.cat([old[:done], n[done:reached], old[reached:]]) for n, old in pairs)
        carried = new
        if wave >= depth - 1:
            highest = carried[0][-1]  # a view; without a graph, a copy frees the layers below
            top.append(highest if highest.requires_grad else highest.clone())
    # clones: a part of `unbind` cannot be changed in place
    return top, tuple(zip(*([s.clone() for s in part.unbind(0)] for part in carried), strict=True))


def _stacked(modules: Sequence[Module]) -> Module:
    """Return a copy of the first module whose parameters are those of all `modules` along a new first dimension."""
    first = modules[0]
    submodules = {
        name: None if child is None else _stacked([torch_internals.children(m)[name] for m in modules])  # type: ignore[type-var]
        for name, child in torch_internals.children(first).items()
    }
    stack = torch_internals.shallow_copy(first, submodules, {})
    for name in torch_internals.parameters(first):
        parts = [torch_internals.parameters(m)[name] for m in modules]
        setattr(stack, name, None if parts[0] is None else torch.stack(parts))  # type: ignore[arg-type]
    return stack
