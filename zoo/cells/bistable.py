"""Bistable recurrent cells (Vecoven, Ernst & Drion 2021): a unit feeds back on itself and can keep one of two values."""

import torch
from torch import Tensor, nn

from .base import LastApart, State
from .projections import Projection, ProjectionFactory


class NBRC(LastApart):
    """h_t = c h_{t-1} + (1 - c) tanh(W_h x_t + a h_{t-1} + b_h), a = 1 + tanh(a'), c = sigmoid(c').

    a' and c' are each a W x_t + U h_{t-1} + b: the other units modulate how strongly a unit feeds back on itself. Where a >
    1 it has two stable states. The authors' code has the biases in a' and c' too; b_h is ours, because all input
    projections here have one.
    """

    inputs = ("a", "c", "h")
    memory_gates = {"c": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent: Projection = projection(2)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, new), (h,) = x, state
        a, c = self.split(self.recurrent(h, gates), 2)
        new = torch.tanh(torch.addcmul(new, 1 + torch.tanh(a), h))
        return (torch.lerp(new, h, torch.sigmoid(c)),)


class BRC(NBRC):
    """The nBRC in which U of a' and of c' is diagonal: a unit sees no other unit's past. Its weights start at 1."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection.diagonal(2)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.ones_(self.recurrent.weight)
