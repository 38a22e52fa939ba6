"""States of a layer at every step, and which steps count. The scans of zoo.networks keep only outputs and last states."""

import numpy as np
import torch
from torch import Tensor

from ..cells.base import State
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork


def unroll(
    direction: Direction,
    x: Tensor,  # (time, batch, channels, ...)
    state: State,
) -> list[State]:
    """Return the first state and the states after every step, time + 1 in all."""
    prepared = [part.unbind(0) for part in direction.cell.prepare(direction.input(x))]
    states = [state]
    with direction.hold_projections(x[0]):
        for x_t in zip(*prepared, strict=True):
            states.append(direction.step(x_t, states[-1]))
    return states


@torch.no_grad()
def layer_inputs(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
) -> list[Tensor]:
    """Return the input of every layer, bottom to top, each (time, batch, channels, ...)."""
    return [layer_input for layer_input, _ in network.trace(x, lengths)[1]]


def sequence_lengths(
    x: Tensor,  # (batch, time, ...)
    lengths: Tensor | None,  # (batch,)
) -> Tensor:
    """Return the number of steps of each sequence, (batch,), on the CPU."""
    return torch.full((len(x),), x.shape[1]) if lengths is None else lengths.cpu()


def valid_steps(
    x: Tensor,  # (batch, time, ...)
    lengths: Tensor | None,  # (batch,)
) -> Tensor:
    """Return a mask of the steps within each sequence's length, (batch, time), on the CPU."""
    return torch.arange(x.shape[1]) < sequence_lengths(x, lengths)[:, None]


def evenly_spread(steps: int, points: int) -> list[int]:
    """Return up to `points` of the steps 1, 2, ..., steps, the first and the last among them."""
    return sorted({int(t) for t in np.linspace(1, steps, min(points, steps)).round()})


def memory_index(direction: Direction) -> int:
    """Return the index of the state that carries the memory: c if the cell has one, else h (Chen 2022, for the LSTM)."""
    names = direction.cell.states
    return next((names.index(name) for name in ("c", "h") if name in names), 0)
