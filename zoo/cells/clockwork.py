"""The clockwork RNN (Koutnik, Greff, Gomez & Schmidhuber 2014): groups of units that run at different speeds."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory, along


def from_slower(weight: Tensor, modules: int) -> Tensor:
    """Return the weight with zeros where a module would see a faster one: a block upper triangular matrix."""
    units = weight.shape[0 if weight.dim() == 4 else -2]
    module = torch.arange(units, device=weight.device) * modules // units
    kept = (module[:, None] <= module).to(weight.dtype)
    return weight * (kept[..., None, None] if weight.dim() == 4 else kept)


class Clockwork(Cell):
    """h_t = tanh(W x_t + U h_{t-1} + b) in the modules whose period divides t; the others keep their h_{t-1}.

    `modules` groups of equally many units have the periods 1, 2, 4, ... A module sees itself and slower ones. The time t is
    the second state, a number of steps modulo twice the longest period. One module is the simple recurrent network.
    """

    inputs = ("h",)
    states = ("h", "t")
    float32_states = ("t",)

    def __init__(self, projection: ProjectionFactory, modules: int = 1):
        super().__init__(projection)
        self.recurrent = projection(parametrization=partial(from_slower, modules=modules))
        self.groups, self.units = modules, projection.units

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 1 if state == "t" else units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, t = state
        periods = 2.0 ** (torch.arange(self.units, device=t.device) * self.groups // self.units).to(t.dtype)
        running = torch.remainder(t, along(periods, self.axis)) == 0
        after = torch.remainder(t + 1, 2.0**self.groups)  # beyond 2**24 float32 would stand still
        return torch.where(running, torch.tanh(self.recurrent(h, x[0])), h), after
