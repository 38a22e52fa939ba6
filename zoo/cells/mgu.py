"""Minimal gated units: one gate, which weighs the candidate and resets the state that the candidate sees."""

import torch
from torch import Tensor, nn

from .base import Cell, State
from .projections import ProjectionFactory, at_every_step


class MinimalGated(Cell):
    """Base of the minimal gated units. A subclass computes the gate."""

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.candidate = projection()

    def updated(self, f: Tensor, new: Tensor, h: Tensor) -> State:
        """Return (1 - f) h + f tanh(new + U_h (f h)). f: the gate; new: W_h x_t + b_h; h: the old state."""
        return (torch.lerp(h, torch.tanh(self.candidate(f * h, new)), f),)


class MGU(MinimalGated):
    """h_t = (1 - f) h_{t-1} + f tanh(W_h x_t + U_h (f h_{t-1}) + b_h), f = sigmoid(W_f x_t + U_f h_{t-1} + b_f).

    Zhou, Wu, Zhang & Zhou 2016.
    """

    inputs = ("f", "h")
    memory_gates = {"f": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.gate = projection()

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.split(x)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (f, new), (h,) = x, state
        return self.updated(torch.sigmoid(self.gate(h, f)), new, h)


class MGU1(MinimalGated):
    """The MGU with f = sigmoid(U_f h_{t-1} + b_f): its gate does not see the input (Heck & Salem 2017, MGU1)."""

    inputs = ("h",)
    gate_has_bias = True

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.gate = projection(bias=self.gate_has_bias)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return self.updated(torch.sigmoid(self.gate(h)), x[0], h)


class MGU2(MGU1):
    """The MGU with f = sigmoid(U_f h_{t-1}) (Heck & Salem 2017, MGU2)."""

    gate_has_bias = False


class MGU3(MinimalGated):
    """The MGU with f = sigmoid(b_f): a learned constant of each unit (Heck & Salem 2017, MGU3)."""

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.gate = nn.Parameter(torch.empty(projection.units))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, at_every_step(torch.sigmoid(self.gate), x, self.axis)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (new, f), (h,) = x, state
        return self.updated(f, new, h)
