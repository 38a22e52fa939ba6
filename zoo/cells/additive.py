"""Cells whose candidate sees the input alone: the past reaches the state through gates and sums only."""

from typing import Any

import torch
from torch import Tensor

from .base import Cell, LastApart, State
from .projections import ProjectionFactory


class RAN(LastApart):
    """c_t = i (W_c x_t + b_c) + f c_{t-1}; h_t = tanh(c_t), or c_t itself (Lee, Levy & Zettlemoyer 2017).

    The gates i and f are sigmoids of a W x_t + U h_{t-1} + b of their own; `activation` is the one of h.
    """

    inputs = ("i", "f", "c")
    states = ("h", "c")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory, activation: str = "tanh"):
        super().__init__(projection)
        self.recurrent = projection(2)
        self.tanh = {"tanh": True, "identity": False}[activation]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, new), (h, c) = x, state
        i, f = self.split(torch.sigmoid(self.recurrent(h, gates)), 2)
        c = torch.addcmul(f * c, i, new)
        return torch.tanh(c) if self.tanh else c, c


class CFN(LastApart):
    """h_t = theta tanh(h_{t-1}) + eta tanh(W x_t + b), gates theta and eta (Laurent & von Brecht 2017).

    Each gate is the sigmoid of a W x_t + U h_{t-1} + b of its own. As long as the candidate's W x_t + b is zero, every
    state decays to zero: the network is free of chaos.
    """

    inputs = ("theta", "eta", "h")
    memory_gates = {"theta": +1, "eta": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(2)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        gates, h = super().prepare(x)
        return gates, torch.tanh(h)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, new), (h,) = x, state
        theta, eta = self.split(torch.sigmoid(self.recurrent(h, gates)), 2)
        return (torch.addcmul(theta * torch.tanh(h), eta, new),)


class SCRN(Cell):
    """s_t = (1 - alpha) B x_t + alpha s_{t-1}; h_t = sigmoid(P s_t + A x_t + R h_{t-1}) (Mikolov et al. 2015).

    The output is [h, s], 2n channels, because the paper reads both. Two things differ from the paper: there are as many
    context units s as units h, and A x_t and B x_t have a bias, as all input projections here.
    """

    inputs = ("h", "s")

    def __init__(self, projection: ProjectionFactory, alpha: float = 0.95):
        super().__init__(projection)
        self.recurrent = projection()
        self.context = projection()
        self.alpha = alpha

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 2 * units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        new, context = self.split(x[0])
        h, s = self.split(state[0])
        s = torch.lerp(context, s, self.alpha)
        h = torch.sigmoid(self.recurrent(h, self.context(s, new)))
        return (torch.cat([h, s], self.axis),)
