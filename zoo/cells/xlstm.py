"""The cells of xLSTM: a scalar memory with recurrence, and a matrix memory without it."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Cell, State
from .matrix import MatrixRecurrence
from .projections import ProjectionFactory

FORGET = {"sigmoid": F.logsigmoid, "exp": lambda f: f}
"""The logarithm of a forget gate by its name."""


def block_diagonal(weight: Tensor, heads: int, axis: int) -> Tensor:
    """Return the matrix, block-diagonal by head in each gate, from its rows without zeros, (gates * units, units / heads)."""
    width = weight.shape[axis]
    head = torch.arange(heads * width, device=weight.device) // width
    inside = (head[:, None] == head).repeat(weight.shape[axis - 1] // len(head), 1)
    return torch.cat([weight] * heads, axis) * (inside if axis == -1 else inside[..., None, None])


class SLSTM(Cell):
    """c_t = f c_{t-1} + i z, n_t = f n_{t-1} + i, h_t = o c_t / n_t (Beck et al. 2024, eq. 8-17).

    z = tanh, i = exp, o = sigmoid and f = sigmoid or exp (`forget`), each of W x + R h_{t-1} + b. R mixes units within
    `heads` groups only. c and n are scaled by exp(-m), m_t = max(log f + m_{t-1}, log i), so that no gate overflows; before
    the first input, where n = 0, m_t is log i. The authors' code has f = sigmoid alone, and starts with R at zero and with
    forget biases that fall from 5 to -7 along each head. "orthogonal" is about each gate's (units, units / heads) matrix,
    not about the groups' blocks of it.
    """

    inputs = ("i", "f", "z", "o")
    states = ("h", "c", "n", "m")
    float32_states = ("c", "n", "m")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory, heads: int = 1, forget: str = "sigmoid"):
        super().__init__(projection)
        self.heads, self.forget, units = heads, forget, projection.units
        self.recurrent = projection.between(
            units // heads, 4 * units, bias=False, norm=projection.layer_norm,
            parametrization=None if heads == 1 else partial(block_diagonal, heads=heads, axis=self.axis),
        )  # fmt: skip

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c, n, m = state
        gates = self.recurrent(h, x[0])
        i, f, z, o = self.split(gates)
        i, f = i.to(m.dtype), FORGET[self.forget](f.to(m.dtype))
        first, kept = n == 0, f + m
        new_m = torch.where(first, i, torch.maximum(kept, i))
        # at first f, which multiplies zeros, must not overflow
        i, f = torch.exp(i - new_m), torch.exp(torch.where(first, new_m, kept) - new_m)
        c = f * c + i * torch.tanh(z)
        n = f * n + i
        return (torch.sigmoid(o) * (c / n)).to(h.dtype), c, n, new_m


class MLSTM(MatrixRecurrence):
    """C_t = f C_{t-1} + i v_t k_t^T, n_t = f n_{t-1} + i k_t, h_t = o * C_t q_t / max(|n_t^T q_t|, 1).

    Beck et al. 2024, eq. 19-27. q, k sqrt(d) and v are W x, with d keys a head, so k's bias is divided by sqrt(d) too; i =
    exp(W x) and f = sigmoid or exp (`forget`) of W x are one number per head, o = sigmoid(W x). C and n are scaled by
    exp(-m), m_t = max(log f + m_{t-1}, log i); n is one more column of the state C, whose value is always 1. The block
    of the authors' code (blocks/mlstm) reads i and f from q, k and v, has f = sigmoid alone, has SiLU of another path in the
    place of o, and starts with forget biases from 3 to 6, gate weights of zero, and biases of i of standard deviation 0.1.
    """

    inputs = ("q", "k", "v", "i", "f", "o")
    states = ("h", "C", "m")
    float32_states = ("C", "m")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory, heads: int = 1, forget: str = "sigmoid"):
        super().__init__(projection, heads)
        self.sizes, self.log_forget = self.input_channels(projection.units, heads=heads), FORGET[forget]

    @classmethod
    def channels(cls, state: str, units: int, *, heads: int = 1, **options: Any) -> int:
        return {"h": units, "C": units * (units // heads + 1), "m": heads}[state]

    @classmethod
    def input_channels(cls, units: int, *, heads: int = 1, **options: Any) -> tuple[int, ...]:
        return units, units, units, heads, heads, units

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v, i, f, o = (self.by_head(part) for part in x.split(self.sizes, self.axis))
        v = torch.cat([v, torch.ones_like(v.narrow(self.axis, 0, 1))], self.axis)
        return q, k / math.sqrt(k.shape[self.axis]), v, i, self.log_forget(f), torch.sigmoid(o)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        q, k, v, i, log_f, o = x
        m = self.by_head(state[2])
        new_m = torch.maximum(log_f + m, i)
        a, k = torch.exp(log_f + m - new_m), torch.exp(i - new_m) * k
        return *super().step((q, k, v, a, o, new_m), state), new_m.squeeze(self.axis)

    def scanned(
        self, x: tuple[Tensor, ...], state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[tuple[Tensor, ...], State]:
        q, k, v, i, log_f, o = x
        m, old, new = self.by_head(state[2]), [], []
        for t, (i_t, log_f_t) in enumerate(zip(i, log_f, strict=True)):
            if tbptt_steps and t and t % tbptt_steps == 0:
                m = m.detach()
            old.append(m)
            new.append(torch.maximum(log_f_t + m, i_t))
            m = new[-1] if lengths is None else torch.where((t < lengths)[:, None, None], new[-1], m)
        old_m, new_m = torch.stack(old), torch.stack(new)
        a, k = torch.exp(log_f + old_m - new_m), torch.exp(i - new_m) * k
        return (q, k, v, a, o, new_m), (m.squeeze(-1),)

    def read(self, o: Tensor, *rest: Tensor) -> Tensor:
        gate, m = rest
        numerator, denominator = o.tensor_split([-1], self.axis)
        return gate * numerator / torch.maximum(denominator.abs(), torch.exp(-m.clamp_min(-80.0)))
