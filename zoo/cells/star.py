"""The stackable recurrent cell (STAR) of "Gating revisited: deep multi-layer RNNs that can be trained"."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class STAR(Cell):
    """z = tanh(W_z x_t + b_z); k = sigmoid(W_x x_t + U h_{t-1} + b_k); h_t = tanh((1 - k) h_{t-1} + k z). Eq. 10-12.

    The candidate z sees only the input. With k = sigmoid(a), `shift` weighs the candidate by sigmoid(a + shift) instead of
    k: 0 is the paper, 1 the authors' code.
    """

    inputs = ("z", "k")
    memory_gates = {"k": -1}

    def __init__(self, projection: ProjectionFactory, shift: float = 0.0):
        super().__init__(projection)
        self.recurrent = projection()
        self.shift = shift

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        z, k = self.split(x)
        return torch.tanh(z), k

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (z, k), (h,) = x, state
        k = self.recurrent(h, k)
        if self.shift:
            return (torch.tanh(torch.addcmul(torch.sigmoid(-k) * h, torch.sigmoid(k + self.shift), z)),)
        return (torch.tanh(torch.lerp(h, z, torch.sigmoid(k))),)
