"""Long expressive memory (Rusch, Mishra, Erichson & Mahoney 2022): a differential equation on many learned time scales."""

import torch
from torch import Tensor

from .base import LastApart, State
from .projections import ProjectionFactory


class LEM(LastApart):
    """z_t = (1 - s) z_{t-1} + s tanh(A_z); y_t = (1 - r) y_{t-1} + r tanh(W_y z_t + V_y x_t + b_y), time steps s and r.

    A_z = W_z y_{t-1} + V_z x_t + b_z; s and r are dt times the sigmoids of a W y_{t-1} + V x_t + b of their own. y is the
    output.
    """

    inputs = ("s", "r", "z", "y")
    states = ("y", "z")
    memory_gates = {"s": -1}

    def __init__(self, projection: ProjectionFactory, dt: float = 1.0):
        super().__init__(projection)
        self.recurrent = projection(3)
        self.output = projection()
        self.dt = dt

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (three, output), (y, z) = x, state
        s, r, new = self.split(self.recurrent(y, three), 3)
        z = torch.lerp(z, torch.tanh(new), self.dt * torch.sigmoid(s))
        return torch.lerp(y, torch.tanh(self.output(z, output)), self.dt * torch.sigmoid(r)), z
