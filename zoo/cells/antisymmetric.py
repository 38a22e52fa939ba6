"""Antisymmetric networks (Chang, Chen, Haber & Chi 2019): Euler steps of a differential equation that forgets nothing."""

from typing import ClassVar

import torch
from torch import Tensor

from .base import Cell, Maps, State


def antisymmetric(weight: Tensor) -> Tensor:
    """W - W^T. The transpose of a convolution swaps its channels and turns its kernels round."""
    return weight - (weight.mT if weight.dim() < 4 else weight.transpose(0, 1).flip(-1, -2))


class Antisymmetric(Cell):
    """h_t = h_{t-1} + epsilon tanh((U - U^T - gamma I) h_{t-1} + W x_t + b).

    The eigenvalues of U - U^T are imaginary, so that what it moves neither grows nor shrinks; the diffusion gamma makes
    up for the length of the step epsilon. U has n^2 numbers, of which n (n - 1) / 2 would do.
    """

    inputs: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(self, maps: Maps, epsilon: float = 0.1, gamma: float = 0.01):
        super().__init__(maps)
        self.recurrent = maps(form=antisymmetric)
        self.epsilon, self.gamma = epsilon, gamma

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        new = torch.tanh(self.recurrent(h, x[0] - self.gamma * h))
        return (h + self.epsilon * new,)


class GatedAntisymmetric(Antisymmetric):
    """h_t = h_{t-1} + epsilon z tanh(A h_{t-1} + W_h x + b_h), z = sigmoid(A h_{t-1} + W_z x + b_z); A as without gate.

    The gate shares the recurrent matrix A = U - U^T - gamma I with the candidate, and so costs no further one.
    """

    inputs = ("z", "h")
    keeps = {"z": -1}

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,), (z, new) = state, self.split(x[0])
        moved = self.recurrent(h, -self.gamma * h)
        return (h + self.epsilon * torch.sigmoid(moved + z) * torch.tanh(moved + new),)
