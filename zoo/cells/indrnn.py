"""The independently recurrent network (Li, Li, Cook, Zhu & Gao 2018): a unit sees no other unit's past."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory


class IndRNN(Cell):
    """h_t = phi(W x_t + u * h_{t-1} + b), where u has one weight for each unit and phi is ReLU or tanh.

    u starts from U(0, 2^(1/T)) for a task of T steps, so that a state at most doubles over a sequence. The paper also clips
    u to that bound while it trains on long sequences; here that is left to the optimizer.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, activation: str = "relu"):
        super().__init__(projection)
        self.recurrent = projection.diagonal()
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (self.activation(self.recurrent(state[0], x[0])),)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.recurrent.weight, 0.0, 2 ** (1 / steps), generator=generator)
