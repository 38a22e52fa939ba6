"""Minion recurrent units (Zyarah & Kudithipudi 2025): GRUs that have numbers in the place of gates."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class MiRU1(Cell):
    """h_t = lambda h_{t-1} + (1 - lambda) tanh(W_h x_t + U_h (r h_{t-1}) + b_h), r = sigmoid(W_r x_t + U_r h_{t-1} + b_r).

    lambda is the option `update`, the same number for all units and steps: the GRU without its update gate.
    """

    inputs = ("r", "h")

    def __init__(self, projection: ProjectionFactory, update: float = 0.5):
        super().__init__(projection)
        self.gate = projection()
        self.candidate = projection()
        self.update = update

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.split(x)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (r, new), (h,) = x, state
        new = torch.tanh(self.candidate(torch.sigmoid(self.gate(h, r)) * h, new))
        return (torch.lerp(new, h, self.update),)


class MiRU2(Cell):
    """h_t = lambda h_{t-1} + (1 - lambda) tanh(W x_t + beta U h_{t-1} + b).

    lambda is the option `update`, beta scales the old state in the place of a reset gate: a leaky simple recurrent network.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, update: float = 0.5, beta: float = 0.5):
        super().__init__(projection)
        self.candidate = projection()
        self.update, self.beta = update, beta

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (torch.lerp(torch.tanh(self.candidate(self.beta * h, x[0])), h, self.update),)
