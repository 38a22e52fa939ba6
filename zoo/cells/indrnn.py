"""The independently recurrent network (Li, Li, Cook, Zhu & Gao 2018): a unit sees only its own past."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory


class IndRNN(Cell):
    """h_t = phi(W x_t + u * h_{t-1} + b), u one weight a unit, phi = ReLU or tanh.

    With T the steps of the task, u starts from U(0, 2^(1/T)): nothing more than doubles over a sequence. Clipping u to
    that bound while training, as the paper does for long sequences, is up to the optimiser.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, activation: str = "relu"):
        super().__init__(projection)
        self.recurrent = projection.diagonal()
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (self.activation(self.recurrent(state[0], x[0])),)

    def reset_parameters(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.recurrent.weight, 0.0, 2 ** (1 / steps), generator=generator)
