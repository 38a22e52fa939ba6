"""Liquid networks: a differential equation whose time constants depend on the input, and a closed form of its solution."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import Cell, State
from .projections import ProjectionFactory, along, at_every_step


class LTC(Cell):
    """dh/dt = -(1 / tau + f) h + f A, f = sigmoid(W x_t + U h + b): liquid time constants (Hasani et al. 2021, eq. 1).

    A time step is `unfolds` steps of the paper's fused solver, h becomes (h + e f A) / (1 + e (1 / tau + f)) with e = dt /
    unfolds. dt is the option of that name times the time since the input before. 1 / tau is the softplus of a parameter,
    and starts at 1; A starts from U(-1, 1). The paper leaves f open. Its authors' later code (ncps) gives every synapse a
    sigmoid of its own, so that the two are one for a single unit only.
    """

    inputs = ("f",)
    uses_time_gaps = True

    def __init__(self, projection: ProjectionFactory, dt: float = 1.0, unfolds: int = 6):
        super().__init__(projection)
        self.recurrent = projection()
        self.rate, self.reversal = (nn.Parameter(torch.empty(projection.units)) for _ in range(2))
        self.size, self.unfolds = dt / unfolds, unfolds

    def prepare(self, x: Tensor, dt: Tensor | None = None) -> tuple[Tensor, ...]:
        rate, reversal = F.softplus(self.rate), at_every_step(self.reversal, x, self.axis)
        if dt is None:
            return x, at_every_step(1 + self.size * rate, x, self.axis), reversal
        size = self.size * dt
        return x, 1 + size * along(rate, self.axis).to(x.dtype), reversal, size

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (u, leak, reversal, *sizes), (h,) = x, state
        size = sizes[0] if sizes else self.size
        for _ in range(self.unfolds):
            f = size * torch.sigmoid(self.recurrent(h, u))
            h = (h + f * reversal) / (leak + f)
        return (h,)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.constant_(self.rate, math.log(math.e - 1))
        nn.init.uniform_(self.reversal, -1.0, 1.0, generator=generator)


class CfC(Cell):
    """h_t = (1 - s) tanh(W_g v + b_g) + s tanh(W_h v + b_h), s = sigmoid(dt (W_a v + b_a) + W_b v + b_b).

    The closed form of a liquid network (Hasani et al. 2022), as its authors' code (ncps) has it: v = 1.7159 tanh(0.666 (W
    x_t + U h_{t-1} + b)) is a backbone of one layer, here of as many units as the cell. dt is the option of that name times
    the time since the input before. The paper's s is sigmoid(dt f) without W_b v + b_b. `mode` is as in that code: with
    "no_gate", h_t = tanh(W_g v + b_g) + s tanh(W_h v + b_h); with "pure", the solution itself, h_t = A - A exp(-dt (|w_tau| +
    |f|)) f with f = W_f v + b_f, where the paper has another factor B for the second A, w_tau + f, and f(-v) as the last
    factor. A and w_tau start at 1; in that code w_tau starts at 0, where its absolute value has no slope, so that it never
    changes.
    """

    inputs = ("v",)
    uses_time_gaps = True

    def __init__(self, projection: ProjectionFactory, dt: float = 1.0, mode: str = "default"):
        super().__init__(projection)
        self.dt, self.mode = dt, mode
        self.recurrent = projection()
        self.heads = projection(1 if mode == "pure" else 4, bias=True)
        if mode == "pure":
            self.w_tau, self.A = (nn.Parameter(torch.empty(projection.units)) for _ in range(2))

    def prepare(self, x: Tensor, dt: Tensor | None = None) -> tuple[Tensor, ...]:
        parameters = (self.w_tau.abs(), self.A) if self.mode == "pure" else ()
        gaps = () if dt is None else (self.dt * dt,)
        return x, *(at_every_step(p, x, self.axis) for p in parameters), *gaps

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        u, *rest = x
        v = self.heads(1.7159 * torch.tanh(0.666 * self.recurrent(state[0], u)))
        if self.mode == "pure":
            rate, A, *gaps = rest
            return (A - A * torch.exp(-(gaps[0] if gaps else self.dt) * (rate + v.abs())) * v,)
        g, h, a, b = self.split(v, 4)
        s = torch.sigmoid((rest[0] if rest else self.dt) * a + b)
        g, h = torch.tanh(g), torch.tanh(h)
        return (torch.lerp(g, h, s) if self.mode == "default" else torch.addcmul(g, s, h),)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        if self.mode == "pure":
            nn.init.ones_(self.A)
            nn.init.ones_(self.w_tau)
