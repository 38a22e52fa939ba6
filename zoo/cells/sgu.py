"""Simple gated units (Gao & Glowacka 2016): the input multiplies the state before it is mapped."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Cell, State
from .projections import ProjectionFactory


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return x / 5 + 1 / 2, cut off at 0 and 1."""
    return 1 - torch.relu(1 - torch.relu(0.2 * x + 0.5))


class SGU(Cell):
    """h_t = (1 - z) h_{t-1} + z softplus(g h_{t-1}), g = tanh(U_g ((W_g x_t + b_g) h_{t-1}) + b).

    z = hard_sigmoid(W_z x_t + U_z h_{t-1} + b_z). The paper has no bias b.
    """

    inputs = ("z", "g")
    memory_gates = {"z": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.gate = projection()
        self.recurrent = projection(bias=True)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.split(x)

    def output(self, product: Tensor) -> Tensor:
        """Return the candidate. product: g h_{t-1}."""
        return F.softplus(product)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (z, g), (h,) = x, state
        new = self.output(torch.tanh(self.recurrent(g * h)) * h)
        return (torch.lerp(h, new, hard_sigmoid(self.gate(h, z))),)


class DSGU(SGU):
    """The SGU with the candidate sigmoid(U_o (g h_{t-1}))."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.candidate = projection()

    def output(self, product: Tensor) -> Tensor:
        return torch.sigmoid(self.candidate(product))
