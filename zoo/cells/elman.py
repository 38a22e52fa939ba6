"""The simple recurrent network (Elman 1990) and its identity-initialised ReLU variant (Le, Jaitly & Hinton 2015)."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class RNN(Cell):
    """Elman's network: h_t = phi(W x_t + U h_{t-1} + b), phi = tanh or ReLU. "Gating revisited", eq. 5.

    torch.nn.RNN computes the same.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, activation: str = "tanh"):
        super().__init__(projection)
        self.recurrent = projection()
        self.activation = ACTIVATIONS[activation]

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (self.activation(self.recurrent(state[0], x[0])),)


class IRNN(RNN):
    """h_t = ReLU(W x_t + U h_{t-1} + b), where U starts as the identity (see its row in CELLS). Le et al. 2015."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection, activation="relu")
