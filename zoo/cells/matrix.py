"""Cells whose state is a matrix of keys by values for each head, decayed and added to: S_t = diag(a_t) S_{t-1} + k_t v_t^T.

Published blocks put a short convolution before these recurrences, a gate and a norm after them; here those belong to blocks.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..utils.shapes import unsqueeze_to
from .base import Cell, State
from .projections import ProjectionFactory, along


class MatrixRecurrence(Cell):
    """o_t = S_t^T q_t, S_t = diag(a_t) S_{t-1} + k_t v_t^T, or with `delta`, + p_t (r_t^T S_{t-1}) besides.

    A subclass defines `prepare` and, unless the output is o itself, `read`. Where a paper has values by
    keys, its S is the transpose of this one. The state holds the matrices of all heads, row by row.
    """

    states: tuple[str, ...] = ("o", "S")
    float32_states: ClassVar[tuple[str, ...]] = ("S",)
    delta: ClassVar[bool] = False
    reads_old: ClassVar[bool] = False
    """Whether o_t is S_{t-1}^T q_t, read before the update, and not S_t^T q_t."""

    def __init__(self, projection: ProjectionFactory, heads: int = 1):
        super().__init__(projection)
        self.heads = heads

    @classmethod
    def channels(cls, state: str, units: int, *, heads: int = 1, **options: Any) -> int:
        return units * (units // heads) if state == "S" else units

    def by_head(self, x: Tensor) -> Tensor:
        """Return (..., heads * n) as (..., heads, n)."""
        return x.unflatten(self.axis, (self.heads, -1))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return q in the precision of a step, k, v, a, r and p if `delta`, the rest for `read`: (..., heads, n) or broadcastable."""
        raise NotImplementedError

    def carry(self, a: Tensor, S: Tensor) -> Tensor:
        """Return diag(a) S. S: (..., heads, keys, values)."""
        return a.unsqueeze(self.axis) * S

    def read(self, o: Tensor, *rest: Tensor) -> Tensor:
        """Return the output of a step, (..., heads, n), from S^T q and the rest of what `prepare` returned."""
        return o

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        axis, (q, k, v, a, *rest) = self.axis, x
        old = state[1].unflatten(axis, (self.heads, k.shape[axis], v.shape[axis]))
        new = self.carry(a, old) + product(k, v, axis)
        if self.delta:
            r, p, *rest = rest
            new = new + product(p, recalled(r, old, axis), axis)
        o = recalled(q, old if self.reads_old else new, axis)
        return self.read(o, *rest).flatten(axis - 1, axis).to(q.dtype), new.flatten(axis - 2, axis)

    def scanned(
        self, x: tuple[Tensor, ...], state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[tuple[Tensor, ...], State]:
        """Return coefficients of all steps by which a scan needs diag(a_t), k_t and v_t alone, and the final states after S.

        A cell that overrides `carry` or `step` overrides this, too, or is scanned step by step; `finished` makes its S of the scan's.
        x: what `prepare` returned for all steps, each (time, batch, ...). The other arguments are those of Direction.scan.
        """
        return x, ()

    def finished(self, S: Tensor, steps: Tensor) -> Tensor:
        """Return the final state, (batch, heads, keys, values), for the S of a scan. steps: (batch,), how many were taken."""
        return S


def product(k: Tensor, v: Tensor, axis: int = -1) -> Tensor:
    """Return k v^T, (..., keys, values, ...), from (..., keys, ...) and (..., values, ...)."""
    return k.unsqueeze(axis) * v.unsqueeze(axis - 1)


def recalled(q: Tensor, S: Tensor, axis: int = -1) -> Tensor:
    """Return S^T q, (..., values, ...). S: (..., keys, values, ...)."""
    return (q.unsqueeze(axis) * S).sum(axis - 1)


def turned(x: Tensor, cos: Tensor, sin: Tensor, axis: int) -> Tensor:
    """Return x with pairs of keys, (j, j + d / 2) along `axis`, turned by minus the angles that have this cos and sin."""
    pairs = x.shape[axis] // 2
    re, im, rest = x.split([pairs, pairs, x.shape[axis] - 2 * pairs], axis)
    return torch.cat([re * cos + im * sin, im * cos - re * sin, rest], axis)


def _angles(keys: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 10000^(-2 j / d) for each pair of keys, (d // 2,)."""
    return torch.exp(torch.arange(keys // 2, dtype=dtype, device=device) * (-math.log(1e4) / max(keys // 2, 1)))


def _turns(keys: int, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Return cos and sin of the angles after numbers of steps, (..., d // 2); in float32, large angles have few digits."""
    angles = steps.double()[..., None] * _angles(keys, torch.float64, steps.device)
    return angles.cos().float(), angles.sin().float()


class Retention(MatrixRecurrence):
    """S_n = g R S_{n-1} + K_n V_n^T, o_n = Q_n^T S_n (Sun et al. 2023, eq. 6 and 8), g = 1 - 2^(-5 - head).

    Q, K and V are W x. R turns pairs of keys (j, j + d / 2) of a head by the angle -10000^(-2 j / d), which is a
    rotation of Q_n by n theta and of K_m by m theta; of an odd d the last key does not turn. K is divided by
    sqrt(d). The paper's two other normalisations of the scores Q K^T, which its group norm cancels, are left out. The
    authors' code (torchscale) spaces the angles' exponents evenly from 0 to -1, both included.
    """

    inputs = ("q", "k", "v")

    def carry(self, a: Tensor, S: Tensor) -> Tensor:
        axis = self.axis - 1  # of the keys
        angle = _angles(S.shape[axis], S.dtype, S.device)
        cos, sin = (unsqueeze_to(t, -axis) for t in (angle.cos(), angle.sin()))
        return super().carry(a, turned(S, cos, sin, axis))

    def scanned(
        self, x: tuple[Tensor, ...], state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[tuple[Tensor, ...], State]:
        q, k, *rest = x  # R^-n S_n has no R: q and k are turned back instead
        cos, sin = (t[:, None, None] for t in _turns(k.shape[-1], torch.arange(1, len(q) + 1, device=q.device)))
        q, k = (turned(part.float(), cos, -sin, -1) for part in (q, k))
        return (q, k, *rest), ()

    def finished(self, S: Tensor, steps: Tensor) -> Tensor:
        cos, sin = (t[:, None, :, None] for t in _turns(S.shape[-2], steps))
        return turned(S, cos, sin, -2)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v = (self.by_head(part) for part in self.split(x))
        decay = 1 - torch.exp2(-5.0 - torch.arange(self.heads, dtype=torch.float32, device=x.device))
        a = self.by_head(along(decay, self.axis)) * torch.ones_like(
            k, dtype=torch.promote_types(k.dtype, torch.float32)
        )
        return q, k / math.sqrt(k.shape[self.axis]), v, a


class GLA(MatrixRecurrence):
    """S_t = diag(alpha_t) S_{t-1} + k_t v_t^T, o_t = S_t^T q_t (Yang et al. 2024, gated linear attention, eq. 3).

    q, k and v are W x; alpha_t = sigmoid(W_2 W_1 x)^(1/16), where W_1 x has `rank` channels (section 4.4). The authors' code
    also divides q by sqrt(d), which the norm that follows cancels.
    """

    inputs = ("q", "k", "v", "alpha")

    def __init__(self, projection: ProjectionFactory, heads: int = 1, rank: int = 16):
        super().__init__(projection, heads)
        self.sizes = self.input_channels(projection.units, rank=rank)
        self.gate = projection.between(rank, projection.units, bias=True, norm=False)

    @classmethod
    def input_channels(cls, units: int, *, rank: int = 16, **options: Any) -> tuple[int, ...]:
        return units, units, units, rank

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v, low_rank = x.split(self.sizes, self.axis)
        q, k, v, log_alpha = (self.by_head(part) for part in (q, k, v, F.logsigmoid(self.gate(low_rank)) / 16))
        return q, k, v, torch.exp(log_alpha)


def reset_steps(bias: Tensor, generator: torch.Generator) -> None:
    """Set a bias b so that softplus(b) is log-uniform in [0.001, 0.1] (Dao & Gu 2024)."""
    step = nn.init.uniform_(bias, math.log(1e-3), math.log(1e-1), generator=generator).exp()
    bias.copy_(step + torch.log(-torch.expm1(-step)))


class Mamba2(MatrixRecurrence):
    """h_t = exp(dt A) h_{t-1} + dt B x_t^T, y_t = h_t^T C + D x_t for each head (Dao & Gu 2024).

    x, B and C are linear in the input; B and C, of `states` channels, are shared by all heads. dt = softplus(W x + bias), A
    < 0 and D are numbers, one for each head, with initial values of the authors' code: -A uniform in [1, 16], softplus(bias)
    log-uniform in [0.001, 0.1], D = 1. The SiLU of x, B and C in that code belongs to its convolution, and both to a block.
    """

    inputs = ("x", "B", "C", "dt")

    def __init__(self, projection: ProjectionFactory, heads: int = 1, states: int = 64):
        super().__init__(projection, heads)
        self.sizes = self.input_channels(projection.units, heads=heads, states=states)
        self.log_rate, self.step_offset, self.skip = (nn.Parameter(torch.empty(heads)) for _ in range(3))

    @classmethod
    def channels(cls, state: str, units: int, *, states: int = 64, **options: Any) -> int:
        return units * states if state == "S" else units

    @classmethod
    def input_channels(cls, units: int, *, heads: int = 1, states: int = 64, **options: Any) -> tuple[int, ...]:
        return units, states, states, heads

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.log_rate, 1, 16, generator=generator).log_()  # of -A
        reset_steps(self.step_offset, generator)
        nn.init.ones_(self.skip)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        x, B, C, dt = x.split(self.sizes, self.axis)
        rate, bias, skip = (along(p, self.axis) for p in (self.log_rate.exp(), self.step_offset, self.skip))
        dt = F.softplus(dt + bias)
        B, C = (part.unflatten(self.axis, (1, -1)) for part in (B, C))
        v, dt, a, skip = (self.by_head(part) for part in (x, dt, torch.exp(-dt * rate), skip))
        return C, dt.to(B.dtype) * B, v, a, skip * v

    def read(self, o: Tensor, *rest: Tensor) -> Tensor:
        return o + rest[0]


class RWKV6(MatrixRecurrence):
    """S_t = diag(w_t) S_{t-1} + k_t v_t^T, o_t = (S_{t-1} + diag(u) k_t v_t^T)^T r_t (Peng et al. 2024, Finch).

    r, k and v are W x; w_t = exp(-exp(decay + W_2 tanh(W_1 x))), where W_1 x has `rank` channels. The paper's token shift,
    which mixes x_t with x_{t-1} before all projections, belongs to a block. decay and u start as the authors' code starts
    them in the middle of a stack; that code starts W_1 at zero, and here W_1 and W_2 start as a specification says.
    """

    inputs = ("r", "k", "v", "w")
    reads_old = True

    def __init__(self, projection: ProjectionFactory, heads: int = 1, rank: int = 64):
        super().__init__(projection, heads)
        self.sizes = self.input_channels(projection.units, rank=rank)
        self.decay, self.bonus = (nn.Parameter(torch.empty(projection.units)) for _ in range(2))
        self.low_rank = projection.between(rank, projection.units, bias=False, norm=False)

    @classmethod
    def input_channels(cls, units: int, *, rank: int = 64, **options: Any) -> tuple[int, ...]:
        return units, units, units, rank

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        n = torch.arange(self.decay.shape[-1], dtype=torch.float32)
        share = n / max(len(n) - 1, 1)
        self.decay.copy_(-6 + 5 * share**1.35)
        self.bonus.copy_((1 - share) / 2 + 0.1 * ((n + 1) % 3 - 1))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        r, k, v, w = x.split(self.sizes, self.axis)
        decay, bonus = (along(p, self.axis) for p in (self.decay, self.bonus))
        log_w = -torch.exp(decay + self.low_rank(torch.tanh(w)))
        r, k, v, w, bonus = (self.by_head(part) for part in (r, k, v, torch.exp(log_w), bonus))
        return r, k, v, w, (r * bonus * k).sum(self.axis, keepdim=True).to(r.dtype) * v

    def read(self, o: Tensor, *rest: Tensor) -> Tensor:
        return o + rest[0]
