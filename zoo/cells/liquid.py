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

    def reset_parameters(self, generator: torch.Generator, steps: int) -> None:
        nn.init.constant_(self.rate, math.log(math.e - 1))
        nn.init.uniform_(self.reversal, -1.0, 1.0, generator=generator)


class CfC(Cell):
    """h_t = (1 - s) tanh(W_g v + b_g) + s tanh(W_h v + b_h), s = sigmoid(dt (W_a v + b_a) + W_b v + b_b).

    The closed form of a liquid network (Hasani et al. 2022), as its authors' code (ncps) has it: v = 1.7159 tanh(0.666 (W
    x_t + U h_{t-1} + b)) is a backbone of one layer, here of as many units as the cell. dt is the time between two inputs.
    """

    inputs = ("v",)
    uses_time_gaps = True

    def __init__(self, projection: ProjectionFactory, dt: float = 1.0):
        super().__init__(projection)
        self.recurrent = projection()
        self.heads = projection(4, bias=True)
        self.dt = dt

    def prepare(self, x: Tensor, dt: Tensor | None = None) -> tuple[Tensor, ...]:
        return (x,) if dt is None else (x, self.dt * dt)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        u, *times = x
        v = 1.7159 * torch.tanh(0.666 * self.recurrent(state[0], u))
        g, h, a, b = self.split(self.heads(v), 4)
        dt = times[0] if times else self.dt
        return (torch.lerp(torch.tanh(g), torch.tanh(h), torch.sigmoid(dt * a + b)),)
