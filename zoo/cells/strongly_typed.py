"""Strongly typed networks (Balduzzi & Ghifary 2016): gates see inputs alone, and a state is only averaged, never mapped."""

from typing import Any

import torch
from torch import Tensor

from .base import State
from .linear import LinearRecurrence


class TRNN(LinearRecurrence):
    """h_t = f h_{t-1} + (1 - f) W x, f = sigmoid(V x). The same as MinGRU with a linear candidate, whose z is 1 - f."""

    inputs = ("f", "z")
    memory_gates = {"f": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        f, z = self.split(x)
        f = torch.sigmoid(f)
        return f, (1 - f) * z


class Pairwise(LinearRecurrence):
    """Base of cells that see x_t and x_{t-1}: z, f and o are each W x_t + V x_{t-1} + b. The last state, `past`, is V x_{t-1}.

    Here V x_t has a bias, as all input projections, and V x_0 is zero before the first step.
    """

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 3 * units if state == "past" else units

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return (x,)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        now, past = self.split(x[0], 2)
        return *super().step(super().prepare(now + state[-1]), state[:-1]), past

    def joined(
        self, x: Tensor, state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[Tensor, State, State]:
        now, then = self.split(x, 2)
        steps, ones = len(now), [1] * (x.dim() - 2)
        every = torch.cat([state[-1].to(then.dtype)[None], then])
        before, time = every[:-1], torch.arange(steps, device=x.device)
        past = every[-1].clone() if lengths is None else every[lengths.clamp(0, steps), torch.arange(len(lengths))]
        if tbptt_steps is not None:
            cut = (time % tbptt_steps == 0) & (time > 0)
            before = torch.where(cut.reshape(-1, 1, *ones), before.detach(), before)
            last_cut = (steps - 1) // tbptt_steps * tbptt_steps
            if lengths is not None and last_cut:  # it cuts the states of sequences that have ended, too
                past = torch.where((lengths > last_cut).reshape(-1, *ones), past, past.detach())
        return now + before, state[:-1], (past,)


class TGRU(Pairwise):
    """h_t = f h_{t-1} + z o, f = sigmoid, o = tanh and z itself of a W x_t + V x_{t-1} + b."""

    inputs = ("z", "f", "o", "vz", "vf", "vo")
    states = ("h", "past")
    memory_gates = {"f": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        z, f, o = self.split(x, 3)
        return torch.sigmoid(f), z * torch.tanh(o)


class TLSTM(Pairwise):
    """c_t = f c_{t-1} + (1 - f) z; h_t = o c_t, f = sigmoid, o = tanh and z itself of a W x_t + V x_{t-1} + b."""

    inputs = ("z", "f", "o", "vz", "vf", "vo")
    states = ("h", "c", "past")
    memory_gates = {"f": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        z, f, o = self.split(x, 3)
        f = torch.sigmoid(f)
        return f, (1 - f) * z, torch.tanh(o)

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        return rest[0] * c
