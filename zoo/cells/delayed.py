"""The tau-GRU (Erichson, Lim & Mahoney 2022): a gated unit that also sees its state of some steps ago."""

from typing import Any

import torch
from torch import Tensor

from .base import LastApart, State
from .projections import ProjectionFactory


class TauGRU(LastApart):
    """h_t = (1 - g) h_{t-1} + g (u + a z), u and z candidates of h_{t-1} and of h_{t-1-delay}, gates g and a.

    u = tanh(W_u x_t + U_u h_{t-1} + b_u), z = tanh(W_z x_t + U_z h_{t-1-delay} + b_z); g and a are the sigmoids of a W x_t
    + U h_{t-1} + b of their own. The second state has the last `delay` states before h_{t-1}, the latest first. The paper's
    factors alpha and beta of u and z, and its step size, are 1.
    """

    inputs = ("u", "g", "a", "z")
    states = ("h", "past")
    memory_gates = {"g": -1}

    def __init__(self, projection: ProjectionFactory, delay: int = 1):
        super().__init__(projection)
        self.recurrent = projection(3)
        self.delayed = projection()
        self.units = projection.units

    @classmethod
    def channels(cls, state: str, units: int, *, delay: int = 1, **options: Any) -> int:
        return units * delay if state == "past" else units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (three, z), (h, past) = x, state
        kept = past.shape[self.axis] - self.units
        u, g, a = self.split(self.recurrent(h, three), 3)
        z = torch.tanh(self.delayed(past.narrow(self.axis, kept, self.units), z))
        past = torch.cat([h, past.narrow(self.axis, 0, kept)], self.axis)
        return torch.lerp(h, torch.tanh(u) + torch.sigmoid(a) * z, torch.sigmoid(g)), past
