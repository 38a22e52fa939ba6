"""Recurrent identity networks (Hu, Huber, Anumula & Liu 2018): the identity is part of the equation, not an initialiser."""

import torch
from torch import Tensor

from .base import Cell, State
from .projections import ProjectionFactory


class RIN(Cell):
    """h_t = ReLU(W x_t + (U + I) h_{t-1} + b), eq. 12-13. The identity I is neither trained nor stored."""

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (torch.relu(self.recurrent(h, x[0] + h)),)


class RINDT(RIN):
    """RIN with a second transition in every step: h_t = ReLU((U2 + I) h' + b2), where h' is RIN's h_t. App. D, eq. 26-27."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.transition = projection(bias=True)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = super().step(x, state)
        return (torch.relu(self.transition(h, h)),)
