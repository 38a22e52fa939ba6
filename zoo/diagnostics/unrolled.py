"""All states of a layer, step after step; zoo.networks.layer keeps only the outputs and the last ones."""

import torch
from torch import Tensor

from ..cells.base import State
from ..networks.layer import Direction
from ..networks.network import Network


def unrolled(way: Direction, x: Tensor, state: State) -> list[State]:
    """The first states and those after every step of x, (time, batch, ...): time + 1 tuples."""
    prepared = [part.unbind(0) for part in way.cell.prepare(way.input(x))]
    states = [state]
    with way.hold_projections(x[0]):
        for step in zip(*prepared, strict=True):
            states.append(way.step(step, states[-1]))
    return states


@torch.no_grad()
def layer_inputs(network: Network, x: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
    """What each layer gets, (time, batch, ...), of x: (batch, time, *input)."""
    return [below for below, _ in network.trace(x, lengths)[1]]


def ends(x: Tensor, lengths: Tensor | None) -> Tensor:
    """How many steps each sequence of x, (batch, time, ...), has, on the CPU."""
    return torch.full((len(x),), x.shape[1]) if lengths is None else lengths.cpu()


def inside(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Which steps count, (batch, time), on the CPU."""
    return torch.arange(x.shape[1]) < ends(x, lengths)[:, None]


def carrier(way: Direction) -> int:
    """Place among its states of the one that carries the memory: c where there is one, as in Chen 2022 for the LSTM, else h."""
    names = way.cell.states
    return next((names.index(name) for name in ("c", "h") if name in names), 0)
