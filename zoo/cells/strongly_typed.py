"""Strongly typed networks (Balduzzi & Ghifary 2016): gates see inputs alone, and a state is only averaged, never mapped."""

from typing import Any

import torch
from torch import Tensor

from .base import Cell, State
from .linear import LinearRecurrence


class TRNN(LinearRecurrence):
    """h_t = f h_{t-1} + (1 - f) W x, f = sigmoid(V x)."""

    inputs = ("f", "z")
    memory_gates = {"f": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        f, z = self.split(x)
        f = torch.sigmoid(f)
        return f, (1 - f) * z


class Pairwise(Cell):
    """Base of those that see x_t and x_{t-1}: z, f and o are each W x_t + V x_{t-1} + b. The state `past` is V x_{t-1}.

    Here V x_t has a bias, as all input projections, and V x_0 is zero before the first step.
    """

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 3 * units if state == "past" else units

    def summed(self, x: tuple[Tensor, ...], state: State) -> tuple[Tensor, ...]:
        """Return z, f, o and the new past."""
        now, past = self.split(x[0], 2)
        return *self.split(now + state[-1], 3), past


class TGRU(Pairwise):
    """h_t = f h_{t-1} + z o, f = sigmoid, o = tanh and z itself of a W x_t + V x_{t-1} + b."""

    inputs = ("z", "f", "o", "vz", "vf", "vo")
    states = ("h", "past")

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        z, f, o, past = self.summed(x, state)
        return torch.addcmul(torch.sigmoid(f) * state[0], z, torch.tanh(o)), past


class TLSTM(Pairwise):
    """c_t = f c_{t-1} + (1 - f) z; h_t = o c_t, f = sigmoid, o = tanh and z itself of a W x_t + V x_{t-1} + b."""

    inputs = ("z", "f", "o", "vz", "vf", "vo")
    states = ("h", "c", "past")

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        z, f, o, past = self.summed(x, state)
        c = torch.lerp(z, state[1], torch.sigmoid(f))
        return torch.tanh(o) * c, c, past
