"""Skip RNNs: cells that learn to skip state updates (Campos, Jou, Giro-i-Nieto, Torres & Chang 2018)."""

from typing import Any

import torch
from torch import Tensor, nn

from .base import Cell, State
from .gru import GRU
from .lstm import LSTM
from .projections import ProjectionFactory


class Skipping(Cell):
    """s_t = u s' + (1 - u) s_{t-1}, where s' is the cell's new state, and u is 1 if p_t > 1/2 and 0 otherwise.

    p_{t+1} = u d + (1 - u) (p_t + min(d, 1 - p_t)) and d = sigmoid(w s_t + b), where b starts at 1. The gradient passes u
    straight through to p. All units share one u; an image has one for each position. The last state is the "debt" 1 - p, so
    that from a state of zeros the first step updates, as with the paper's p_1 = 1.
    """

    float32_states = ("debt",)  # bfloat16 would round small d away, and a unit could skip for ever

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.importance = projection.scalars(1, bias=True)

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 1 if state == "debt" else units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        *old, debt = state
        p = 1 - debt
        u = (p > 0.5).to(p.dtype) + (p - p.detach())
        taken = u.to(old[0].dtype)
        new = tuple(taken * n + (1 - taken) * o for n, o in zip(super().step(x, tuple(old)), old, strict=True))
        d = torch.sigmoid(self.importance(new[-1]).to(p.dtype))
        p = u * d + (1 - u) * (p + torch.minimum(d, 1 - p))
        return *new, 1 - p

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        if self.importance.bias is not None:
            nn.init.ones_(self.importance.bias)


class SkipGRU(Skipping, GRU):
    """A GRU that skips steps; d is computed from h."""

    states = ("h", "debt")


class SkipLSTM(Skipping, LSTM):
    """An LSTM that skips steps; d is computed from c, as in the authors' code."""

    states = ("h", "c", "debt")
