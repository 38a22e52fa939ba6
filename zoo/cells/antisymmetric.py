"""Antisymmetric networks (Chang, Chen, Haber & Chi 2019): Euler steps of a differential equation that is stable."""

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Cell, State
from .projections import ProjectionFactory


def transposed(weight: Tensor) -> Tensor:
    """Return W^T. The transpose of a convolution swaps its channels and rotates its kernels by 180 degrees."""
    return weight.mT if weight.dim() < 4 else weight.transpose(0, 1).flip(-1, -2)


def identity_like(weight: Tensor) -> Tensor:
    """Return the identity as a matrix, or as a convolution, of the shape of `weight`."""
    dense = weight.dim() < 4
    identity = torch.eye(weight.shape[-1 if dense else 0], dtype=weight.dtype, device=weight.device)
    return identity if dense else F.pad(identity[..., None, None], [weight.shape[-1] // 2] * 4)


def antisymmetric(weight: Tensor, gamma: float) -> Tensor:
    """Return W - W^T - gamma I."""
    return weight - transposed(weight) - gamma * identity_like(weight)


class Antisymmetric(Cell):
    """h_t = h_{t-1} + epsilon tanh((U - U^T - gamma I) h_{t-1} + W x_t + b).

    The eigenvalues of U - U^T are imaginary, so a state that it moves neither grows nor shrinks. The diffusion gamma
    makes up for the finite step size epsilon. Layer normalisation and recurrent dropout act on the whole matrix, gamma I
    included. U is stored as n^2 numbers, of which n (n - 1) / 2 matter.
    """

    inputs: ClassVar[tuple[str, ...]] = ("h",)

    def __init__(self, projection: ProjectionFactory, epsilon: float = 0.1, gamma: float = 0.01):
        super().__init__(projection)
        self.recurrent = projection(parametrization=partial(antisymmetric, gamma=gamma))
        self.epsilon = epsilon

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (h + self.epsilon * torch.tanh(self.recurrent(h, x[0])),)


class GatedAntisymmetric(Antisymmetric):
    """h_t = h_{t-1} + epsilon z tanh(A h_{t-1} + W_h x_t + b_h), gate z = sigmoid(A h_{t-1} + W_z x_t + b_z).

    Gate and candidate share the recurrent matrix A = U - U^T - gamma I.
    """

    inputs = ("z", "h")
    memory_gates = {"z": -1}

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,), (z, new) = state, self.split(x[0])
        moved = self.recurrent(h)
        return (h + self.epsilon * torch.sigmoid(moved + z) * torch.tanh(moved + new),)
