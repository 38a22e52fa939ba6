"""The scalar-memory cell of xLSTM."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Cell, State
from .projections import ProjectionFactory

FORGET = {"sigmoid": F.logsigmoid, "exp": lambda f: f}
"""The logarithm of a forget gate by its name."""


def block_diagonal(weight: Tensor, heads: int, axis: int) -> Tensor:
    """Return the matrix whose square blocks of units are block-diagonal, from the rows of all blocks."""
    width = weight.shape[axis]
    head = torch.arange(heads * width, device=weight.device) // width
    inside = (head[:, None] == head).repeat(weight.shape[axis - 1] // len(head), 1)
    return torch.cat([weight] * heads, axis) * (inside if axis == -1 else inside[..., None, None])


class SLSTM(Cell):
    """c_t = f c_{t-1} + i z, n_t = f n_{t-1} + i, h_t = o c_t / n_t (Beck et al. 2024, eq. 8-17).

    z = tanh, i = exp, o = sigmoid and f = sigmoid or exp (`forget`), each of W x + R h_{t-1} + b. R mixes units within
    `heads` groups only. c and n are scaled by exp(-m), m_t = max(log f + m_{t-1}, log i), so that no gate overflows;
    before the first input, where n = 0, m_t is log i.
    """

    inputs = ("i", "f", "z", "o")
    states = ("h", "c", "n", "m")
    float32_states = ("c", "n", "m")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory, heads: int = 1, forget: str = "sigmoid"):
        super().__init__(projection)
        self.heads, self.log_forget, units = heads, FORGET[forget], projection.units
        self.recurrent = projection.between(
            units // heads, 4 * units, bias=False, norm=projection.layer_norm,
            parametrization=None if heads == 1 else partial(block_diagonal, heads=heads, axis=self.axis),
        )  # fmt: skip

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c, n, m = state
        gates = self.recurrent(h, x[0])
        i, f, z, o = self.split(gates)
        i, f = i.to(m.dtype), self.log_forget(f.to(m.dtype))
        new_m = torch.where(n == 0, i, torch.maximum(f + m, i))
        i, f = torch.exp(i - new_m), torch.exp(f + m - new_m)
        c = f * c + i * torch.tanh(z)
        n = f * n + i
        return (torch.sigmoid(o) * (c / n)).to(h.dtype), c, n, new_m
