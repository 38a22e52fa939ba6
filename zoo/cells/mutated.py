"""The gated units that a search over architectures found best (Jozefowicz, Zaremba & Sutskever 2015).

The paper's MUT2 adds x_t itself inside the reset gate. Where a projection of x_t takes its place, as everywhere here, MUT2
is the GRU with z on the new state: the cell `gru`.
"""

import torch
from torch import Tensor

from .base import Cell, State
from .gru import GRU
from .projections import ProjectionFactory


class MUT1(Cell):
    """h_t = (1 - z) h_{t-1} + z tanh(tanh(W_h x_t + b) + U_h (r h_{t-1}) + b_h), z = sigmoid(W_z x_t + b_z).

    r = sigmoid(W_r x_t + U_r h_{t-1} + b_r). The paper has tanh(x_t), which needs an input as wide as the layer.
    """

    inputs = ("z", "r", "h")
    memory_gates = {"z": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.reset = projection()
        self.candidate = projection(bias=True)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        z, r, h = self.split(x)
        return torch.sigmoid(z), r, torch.tanh(h)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (z, r, new), (h,) = x, state
        r = torch.sigmoid(self.reset(h, r))
        return (torch.lerp(h, torch.tanh(self.candidate(r * h, new)), z),)


class MUT3(GRU):
    """A GRU whose update gate sees tanh(h_{t-1}): z = sigmoid(W_z x_t + U_z tanh(h_{t-1}) + b_z)."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.gates = projection()
        self.update = projection()

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.split(x)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (r, z, new), (h,) = x, state
        r, z = torch.sigmoid(self.gates(h, r)), torch.sigmoid(self.update(torch.tanh(h), z))
        return (torch.lerp(h, torch.tanh(self.candidate(r * h, new)), z),)
