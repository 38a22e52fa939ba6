"""Long short-term memory (Hochreiter & Schmidhuber 1997) and its relatives. Gates are in torch.nn.LSTM's order."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from .base import Cell, LastApart, State
from .projections import Projection, ProjectionFactory, at_every_step, at_least_float32


class LSTM(Cell):
    """c_t = f c_{t-1} + i z; h_t = o tanh(c_t). "Gating revisited", eq. 16-21; the forget gate f is Gers et al.'s (2000).

    i, f and o are sigmoid(W x_t + U h_{t-1} + b), and z is the tanh of the same form; each has its own W, U and b.
    """

    inputs: ClassVar[tuple[str, ...]] = ("i", "f", "z", "o")
    states: tuple[str, ...] = ("h", "c")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(4)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        return self.updated(self.recurrent(h, x[0]), c)

    def updated(self, a: Tensor, c: Tensor) -> State:
        """Return the new h and c, (batch, units, ...). a: the pre-activations of i, f, z and o, one after another; c: the old one."""
        i, f, z, o = self.split(a, 4)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(z))
        return torch.sigmoid(o) * torch.tanh(c), c


class ForgetLSTM(Cell):
    """LSTM with only the forget gate (van der Westhuizen & Lasenby 2018). "Gating revisited", eq. 22-24.

    f = sigmoid(W_f x_t + U_f h_{t-1} + b_f); z = tanh(W_z x_t + U_z h_{t-1} + b_z); h_t = tanh(f h_{t-1} + (1 - f) z).
    """

    inputs = ("f", "z")
    memory_gates = {"f": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(2)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        f, z = self.split(self.recurrent(h, x[0]))
        return (torch.tanh(torch.lerp(torch.tanh(z), h, torch.sigmoid(f))),)


class PeepholeLSTM(LSTM):
    """LSTM whose gates also see the cell state: i and f the old one, o the new one (Gers & Schmidhuber 2000).

    peephole: "diagonal" weighs the cell state by one number for each unit, as the paper does; "full" by a whole matrix,
    W [c, h, x].
    """

    def __init__(self, projection: ProjectionFactory, peephole: str = "full"):
        super().__init__(projection)
        kinds: dict[str, Callable[[int], Projection]] = {"full": projection, "diagonal": projection.diagonal}
        make = kinds[peephole]
        self.old = make(2)
        self.new = make(1)

    def gated(self, x: Tensor, state: State) -> State:
        """Return the output gate and the new cell state, (batch, units, ...). x: the projected input of the four gates."""
        h, c = state
        i, f, z, o = self.split(self.recurrent(h, x), 4)
        i, f = self.split(torch.sigmoid(self.old(c, torch.cat([i, f], self.axis))), 2)
        c = torch.addcmul(f * c, i, torch.tanh(z))
        return torch.sigmoid(self.new(c, o)), c

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        o, c = self.gated(x[0], state)
        return o * torch.tanh(c), c


class CoupledLSTM(Cell):
    """LSTM with i = 1 - f, so it writes as much as it forgets: c_t = f c_{t-1} + (1 - f) z; h_t = o tanh(c_t)."""

    inputs = ("f", "z", "o")
    states = ("h", "c")
    memory_gates = {"f": +1}

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(3)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        h, c = state
        f, z, o = self.split(self.recurrent(h, x[0]))
        c = torch.lerp(torch.tanh(z), c, torch.sigmoid(f))
        return torch.sigmoid(o) * torch.tanh(c), c


class ResidualLSTM(LastApart, PeepholeLSTM):
    """h_t = o (W_p tanh(c_t) + W_s x_t): a peephole LSTM with a shortcut to the layer above (Kim, El-Khamy & Lee 2017).

    The peepholes have one weight for each unit. Here W_s is a projection in every layer, with a bias as all input
    projections have; the paper allows x_t itself where it is as wide as the layer.
    """

    inputs = ("i", "f", "z", "o", "s")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection, peephole="diagonal")
        self.projection = projection()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        gates, shortcut = x
        o, c = self.gated(gates, state)
        return o * self.projection(torch.tanh(c), shortcut), c


class PhasedLSTM(PeepholeLSTM):
    """A peephole LSTM whose units are open, k > 0, during a part of their own period only (Neil, Pfeiffer & Liu 2016).

    The phase is phi = ((t - s) mod tau) / tau. With r = `ratio`, k is 2 phi / r while phi < r / 2, then 2 - 2 phi / r while
    phi < r, then leak * phi. c_t = k c' + (1 - k) c_{t-1} and h_t = k h' + (1 - k) h_{t-1}, where c' and h' are the LSTM's.
    The time t is the third state, a number of steps, where the paper has the time stamp of each input. The period is tau =
    e^w; for a task of T steps w starts from U(0, log T) and the shift s from U(0, tau). The authors' code leaks in training
    only; here a trained network leaks, too.
    """

    states = ("h", "c", "t")
    float32_states = ("t",)

    def __init__(self, projection: ProjectionFactory, ratio: float = 0.05, leak: float = 0.001):
        super().__init__(projection, peephole="diagonal")
        self.ratio, self.leak = ratio, leak
        self.log_period = nn.Parameter(torch.empty(projection.units))
        self.shift = nn.Parameter(torch.empty(projection.units))

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 1 if state == "t" else units

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        precise = at_least_float32(x)  # as is the time
        return x, *(at_every_step(p, precise, self.axis) for p in (self.log_period.exp(), self.shift))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, tau, s), (*old, t) = x, state
        phi = torch.remainder(t - s, tau) / tau
        rising, falling = 2 * phi / self.ratio, 2 - 2 * phi / self.ratio
        k = torch.where(phi < self.ratio, torch.minimum(rising, falling), self.leak * phi).to(old[0].dtype)
        new = super().step((gates,), tuple(old))
        return *(k * n + (1 - k) * o for n, o in zip(new, old, strict=True)), t + 1

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.log_period, 0.0, math.log(steps), generator=generator)
        nn.init.uniform_(self.shift, generator=generator).mul_(self.log_period.exp())
