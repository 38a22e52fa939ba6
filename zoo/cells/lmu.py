"""The Legendre memory unit (Voelker, Kajic & Eliasmith 2019): a linear memory of the last theta steps of one signal."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .base import Cell, State
from .constants import constant
from .projections import ProjectionFactory


def legendre(order: int, theta: float) -> list[list[float]]:
    """Return [A | B], (order, order + 1), of m_t = A m_{t-1} + B u_t: the delay network with its input held for a step.

    numpy computes it, so that a trace of the network does not see how.
    """
    i = np.arange(order)
    rate = (2 * i[:, None] + 1) / theta
    rates = np.zeros((order + 1, order + 1))
    rates[:order, :order] = rate * np.where(i[:, None] < i, -1.0, (-1.0) ** (i[:, None] - i + 1))
    rates[:order, order:] = rate * (-1.0) ** i[:, None]
    return exponential(rates)[:order].tolist()


def exponential(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return e^M, by its series for M / 2^s and s squarings."""
    halvings = max(0, math.ceil(math.log2(max(1e-300, float(np.abs(matrix).sum(0).max())))) + 2)
    small = matrix / 2.0**halvings
    total = term = np.eye(len(matrix))
    for k in range(1, 20):
        term = term @ small / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


class LMU(Cell):
    """m_t = A m_{t-1} + B u_t; h_t = tanh(W_x x_t + W_h h_{t-1} + W_m m_t + b_h).

    u_t = e_x x_t + e_h h_{t-1} + e_m m_{t-1} + b_u is one number, and m_t has its `order` Legendre coefficients over a
    window of `theta` steps. A and B are fixed. e_m starts at zero, as in the authors' code: a random one can move eigenvalues
    of A + B e_m out of the unit circle. That code has no biases; ours are those of all input projections.
    """

    inputs = ("u", "h")
    states = ("h", "m")

    def __init__(self, projection: ProjectionFactory, order: int = 32, theta: float = 784.0):
        super().__init__(projection)
        self.order, self.theta = order, theta
        self.constants = ((legendre, order, theta),)
        self.recurrent = projection()
        self.memory = projection.between(order, projection.units, bias=False, norm=projection.layer_norm)
        self.signal = projection.scalars(1)
        self.feedback = projection.between(order, 1, bias=False, norm=False)

    @classmethod
    def channels(cls, state: str, units: int, *, order: int = 32, **options: Any) -> int:
        return order if state == "m" else units

    @classmethod
    def input_channels(cls, units: int, **options: Any) -> tuple[int, ...]:
        return 1, units

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        channels = x.shape[self.axis]
        return x.narrow(self.axis, 1, channels - 1), x.narrow(self.axis, 0, 1)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (new, u), (h, m) = x, state
        u = self.feedback(m, self.signal(h, u))
        matrix = constant(legendre, self.order, self.theta, device=m.device).to(m.dtype)
        both = torch.cat([m, u.to(m.dtype)], self.axis)
        m = (both.movedim(self.axis, -1) @ matrix.mT).movedim(-1, self.axis)
        return torch.tanh(self.recurrent(h, self.memory(m, new))), m

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.zeros_(self.feedback.weight)
