"""A gated unit for irregular series in which values are missing."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .base import RawInputCell, State
from .projections import ProjectionFactory, along


class GRUD(RawInputCell):
    """h_t = (1 - z) d + z tanh(W_h x' + U_h (r d) + V_h m + b_h), d = gamma h_{t-1}: the GRU-D (Che et al. 2018).

    r and z = sigmoid(W x' + U d + V m + b) each. Of input k, m = 1 where x_k is a number and 0 where it is NaN; delta_k is
    the time since x_k was last a number, up to this step. x'_k = m x_k + (1 - m) g_k (the last number x_k), with g = exp(-max(0,
    w delta + c)), a w_k and c_k for each input: a missing value decays from the last one to the mean. gamma = exp(-max(0,
    W_d delta + b_d)).

    The paper hands in x, m and delta; here they come of NaN in x and of `dt`, the time since the input before. The states
    carry the last numbers and the times since. The mean is 0, so inputs have to be standardised. The first delta is the
    time of one step, where the paper has 0. At initialisation w is uniform in (0, 1), and W_d in (0, 1 / (K T)) for K
    inputs and a task of T steps, so that a state lasts a sequence without gaps; the authors' code has zeros, but max(0, .)
    passes no gradient there. V_h, V_r and V_z start as input projections do, W and U as recurrent ones.
    """

    inputs = ("r", "z", "h")
    states = ("h", "last", "since")
    float32_states = ("since",)
    memory_gates = {"z": -1}
    uses_time_gaps = True

    def __init__(self, projection: ProjectionFactory, inputs: int = 1):
        super().__init__(projection)
        units, norm = projection.units, projection.layer_norm
        self.values = projection.between(inputs, 3 * units, bias=False, norm=norm)
        self.gates, self.candidate = projection(2), projection()
        self.decay = projection.between(inputs, units, bias=True, norm=False)
        self.rate, self.offset = (nn.Parameter(torch.empty(inputs)) for _ in range(2))
        self.blocks = [2 * units, units]

    @classmethod
    def channels(cls, state: str, units: int, *, inputs: int = 1, **options: Any) -> int:
        return units if state == "h" else inputs

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.rate, generator=generator)
        nn.init.uniform_(self.decay.weight, generator=generator).div_(self.rate.shape[-1] * steps)

    def project(self, x: Tensor, dt: Tensor | None, projection: Callable[[Tensor], Tensor]) -> tuple[Tensor, ...]:
        missing = x.isnan()
        projected = projection(1 - missing.to(x.dtype))
        numbers = torch.where(missing, torch.zeros_like(x), x)
        return projected, numbers.to(projected.dtype), missing.to(projected.dtype), *(() if dt is None else (dt,))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (mask, x_t, absent, *gaps), (h, last, since) = x, state
        since = since + (gaps[0].to(since.dtype) if gaps else 1)
        rate, offset = (along(p, self.axis) for p in (self.rate, self.offset))
        fading = torch.exp(-torch.relu(torch.addcmul(offset, rate, since))).to(h.dtype)
        h = h * torch.exp(-torch.relu(self.decay(since.to(h.dtype)))).to(h.dtype)
        gates, new = self.values(torch.addcmul(x_t, absent * fading, last), mask).split(self.blocks, self.axis)
        r, z = self.split(torch.sigmoid(self.gates(h, gates)), 2)
        h = torch.lerp(h, torch.tanh(self.candidate(r * h, new)), z)
        return h, torch.addcmul(x_t, absent, last), absent * since
