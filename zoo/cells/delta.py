"""Cells whose matrix state replaces the value of a key, by the delta rule, where those of matrix.py only add to it.

Published blocks put a short convolution before these recurrences, a gate and a norm after them; here those belong to blocks.
"""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .matrix import MatrixRecurrence, reset_steps
from .projections import ProjectionFactory, along, at_least_float32


def unit(x: Tensor, axis: int) -> Tensor:
    """Return x / sqrt(|x|^2 + 1e-6), of length 1, with a bounded gradient where x is zero, as of a black pixel.

    In float32 at least, since the derivative of rsqrt at 1e-6 is more than float16 has.
    """
    exact = at_least_float32(x)
    return (exact * torch.rsqrt((exact * exact).sum(axis, keepdim=True) + 1e-6)).to(x.dtype)


class DeltaNet(MatrixRecurrence):
    """S_t = S_{t-1} (I - beta k k^T) + beta v k^T, o_t = S_t q_t (Yang et al. 2024, parallel DeltaNet).

    q and k are SiLU(W x), scaled to length 1 in each head; v = SiLU(W x); beta = sigmoid(W x) is one number
    per head. The authors' code also divides q by sqrt(d), which the norm that follows cancels.
    """

    inputs: ClassVar[tuple[str, ...]] = ("q", "k", "v", "beta")
    delta = True

    def __init__(self, projection: ProjectionFactory, heads: int = 1):
        super().__init__(projection, heads)
        self.sizes = self.input_channels(projection.units, heads=heads)

    @classmethod
    def input_channels(cls, units: int, *, heads: int = 1, **options: Any) -> tuple[int, ...]:
        return units, units, units, heads

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        q, k, v, beta, *decay = (self.by_head(part) for part in x.split(self.sizes, self.axis))
        q, k = (unit(F.silu(part), self.axis) for part in (q, k))
        beta = torch.sigmoid(beta)
        a = self.decay(beta, *decay)
        return q, beta * k, F.silu(v), a, k, -(a * beta).to(k.dtype) * k

    def decay(self, beta: Tensor, *alpha: Tensor) -> Tensor:
        """Return the share of the old state that a step keeps, in the shape of beta: all of it."""
        return torch.ones_like(beta)


class GatedDeltaNet(DeltaNet):
    """S_t = S_{t-1} alpha (I - beta k k^T) + beta v k^T (Yang et al. 2025), q, k, v and beta as in DeltaNet.

    alpha = exp(-rate softplus(W x + bias)), one number per head, as in Mamba-2. At initialisation rate is uniform in [0, 16], as in
    the authors' code.
    """

    inputs = ("q", "k", "v", "beta", "alpha")

    def __init__(self, projection: ProjectionFactory, heads: int = 1):
        super().__init__(projection, heads)
        self.log_rate, self.step_offset = (nn.Parameter(torch.empty(heads)) for _ in range(2))

    @classmethod
    def input_channels(cls, units: int, *, heads: int = 1, **options: Any) -> tuple[int, ...]:
        return units, units, units, heads, heads

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.log_rate, 0, 16, generator=generator).clamp_(min=1e-4).log_()
        reset_steps(self.step_offset, generator)

    def decay(self, beta: Tensor, *alpha: Tensor) -> Tensor:
        rate, bias = (self.by_head(along(p, self.axis)) for p in (self.log_rate.exp(), self.step_offset))
        return torch.exp(-rate * F.softplus(alpha[0] + bias))


class RWKV7(MatrixRecurrence):
    """S_t = S_{t-1} (diag(w) - kappa^T (a * kappa)) + v^T k~, o_t = S_t r_t + (r . (rho * k~)) v (Peng et al. 2025, eq. 17).

    r, k and v are W x. w = exp(-sigmoid(decay + W_2 tanh(W_1 x)) / sqrt(e)) (eq. 11 and 12) and a = sigmoid(rate + W_2 W_1
    x), where W_1 x has `rank` channels. kappa = xi * k has length 1 in each head (eq. 6); k~ = k * (1 + alpha (a - 1)) (eq.
    7). The paper's token shift, its norm before the last term, and its mixing of v with that of the lowest layer belong to a
    block. decay, rate, xi, alpha and rho start as the authors' code starts them in the middle of a stack; that code starts
    each W_1 at zero, and here W_1 and W_2 start as a specification says.
    """

    inputs = ("r", "k", "v", "w", "a")
    delta = True

    def __init__(self, projection: ProjectionFactory, heads: int = 1, rank: int = 64):
        super().__init__(projection, heads)
        units = projection.units
        self.sizes = self.input_channels(units, rank=rank)
        self.w, self.a = (projection.between(rank, units, bias=False, norm=False) for _ in range(2))
        self.decay, self.rate, self.xi, self.alpha, self.rho = (nn.Parameter(torch.empty(units)) for _ in range(5))

    @classmethod
    def input_channels(cls, units: int, *, rank: int = 64, **options: Any) -> tuple[int, ...]:
        return units, units, units, rank, rank

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        units = self.decay.shape[-1]
        share, in_head = (
            torch.linspace(a, 1, n, dtype=torch.float32) for a, n in ((0, units), (-1, units // self.heads))
        )
        in_head = in_head.repeat(self.heads)
        zigzag = in_head * in_head.abs()
        self.decay.copy_(6 * share ** (1 + 0.5**0.3) - 5.5 + 2.5 * zigzag)
        self.rate.copy_(0.4 * (share - 0.5) - 0.19 + 0.3 * zigzag)
        self.xi.copy_(0.71 - 0.1 * (share - 0.5))
        nn.init.constant_(self.alpha, 1.02)
        nn.init.constant_(self.rho, -0.04)

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        r, k, v, w, a = x.split(self.sizes, self.axis)
        parameters = (self.decay, self.rate, self.xi, self.alpha, self.rho)
        decay, rate, xi, alpha, rho = (along(p, self.axis).to(x.dtype) for p in parameters)
        keep = torch.exp(-math.exp(-0.5) * torch.sigmoid(decay + self.w(torch.tanh(w))))
        a = torch.sigmoid(rate + self.a(a))
        new_k = k * (1 + alpha * (a - 1))
        r, new_k, v, keep, a, kappa, rho = map(self.by_head, (r, new_k, v, keep, a, xi * k, rho))
        kappa = unit(kappa, self.axis)
        return r, new_k, v, keep, kappa, -a * kappa, (r * rho * new_k).sum(self.axis, keepdim=True) * v

    def read(self, o: Tensor, *rest: Tensor) -> Tensor:
        return o + rest[0]
