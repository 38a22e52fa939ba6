"""Lipschitz recurrent networks (Erichson, Azencot, Queiruga, Hodgkinson & Mahoney 2021)."""

from functools import partial

import torch
from torch import Tensor

from .antisymmetric import identity_like, transposed
from .base import Cell, State
from .projections import ProjectionFactory


def decomposed(weight: Tensor, beta: float, gamma: float) -> Tensor:
    """Return (1 - beta) (M + M^T) + beta (M - M^T) - gamma I: beta sets how much of the matrix is antisymmetric."""
    return weight + (1 - 2 * beta) * transposed(weight) - gamma * identity_like(weight)


class LipschitzRNN(Cell):
    """h_t = h_{t-1} + epsilon (A h_{t-1} + tanh(B h_{t-1} + W x_t + b)): an Euler step of a stable equation.

    A and B are (1 - beta) (M + M^T) + beta (M - M^T) - gamma I, each of an M of its own.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, epsilon: float = 0.03, beta: float = 0.75, gamma: float = 0.001):
        super().__init__(projection)
        parametrization = partial(decomposed, beta=beta, gamma=gamma)
        self.drift = projection(parametrization=parametrization)
        self.recurrent = projection(parametrization=parametrization)
        self.epsilon = epsilon

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (h + self.epsilon * (self.drift(h) + torch.tanh(self.recurrent(h, x[0]))),)
