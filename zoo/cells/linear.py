"""Cells that are linear in their state: c_t = a_t c_{t-1} + b_t, entry by entry, with a and b from the input alone.

All a and b of a sequence are computed at once, so a step has no matrix product of the state. W x stands for W x_t + bias.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import Cell, State
from .projections import ProjectionFactory


class System(NamedTuple):
    """Units that are systems of their own, the same at every step: x_t = a x_{t-1} + b u_t, y_t = 2 Re(sum of c x_t) + d u_t."""

    a: Tensor  # (units, states), complex, as b and c
    b: Tensor
    c: Tensor
    d: Tensor  # (units,)


class LinearRecurrence(Cell):
    """Base of cells that are linear in their state.

    A subclass defines `coefficients` and, unless the output is the state itself, `read`. One that redefines `step` or `prepare`
    and not `joined` is scanned step by step.
    """

    complex_state: ClassVar[bool] = False
    """Whether a, b and the last state are complex: n real parts along the channels, then n imaginary ones."""
    time_invariant: ClassVar[bool] = False
    """Whether a is the same at every step and b an affine function of the projected input."""

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return a, b, and the further arguments of `read`. x: the projected input, (..., channels), of any number of steps.

        a is like b or broadcastable. An `a` that is the same at every step has the shape of one state, without batch and time.
        """
        raise NotImplementedError

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        """Return the output of a step. c: its new state. rest: what `coefficients` returned after a and b."""
        raise NotImplementedError

    def system(self) -> System | None:
        """Return the cell's dense equations as a System in float32, whose u is the projected input; None if they are none."""
        return None

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b, *rest = self.coefficients(x)
        return b, a.expand_as(b), *rest  # b first: it has the precision of a step

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        b, a, *rest = x
        c = next_state(a, b, state[-1], self.complex_state, self.axis)
        return (c,) if len(state) == 1 else (self.read(c, *rest), c)

    def joined(
        self, x: Tensor, state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[Tensor, State, State]:
        """Return the argument of `coefficients`, the initial states of the scan, and final states that no scan need compute.

        x: the projected input of all steps, (time, batch, ...). The other arguments are those of Direction.scan.
        """
        return x, state, ()


def next_state(a: Tensor, b: Tensor, c: Tensor, complex_state: bool, axis: int = -1) -> Tensor:
    """Return a c + b, entry by entry, for tensors of one shape.

    Complex tensors hold real parts along `axis`, then as many imaginary ones.
    """
    return b + times(a, c, axis) if complex_state else torch.addcmul(b, a, c)


def times(a: Tensor, c: Tensor, axis: int = -1) -> Tensor:
    """Return the product a c, entry by entry, of complex tensors with parts in the order of `next_state`."""
    (a_re, a_im), (re, im) = a.chunk(2, axis), c.chunk(2, axis)
    return torch.cat([a_re * re - a_im * im, a_im * re + a_re * im], axis)


def linear(x: Tensor) -> Tensor:
    """Return x."""
    return x


def positive(x: Tensor) -> Tensor:
    """Return x + 0.5 for x >= 0, and sigmoid(x) otherwise."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


CANDIDATES = {"linear": linear, "positive": positive}


class MinGRU(LinearRecurrence):
    """h_t = (1 - z) h_{t-1} + z g(W_h x), z = sigmoid(W_z x) (Feng et al. 2024).

    `candidate` is g: "linear", or "positive", x + 0.5 for x >= 0 and sigmoid(x) otherwise, which the paper needs to scan in
    log space.
    """

    inputs = ("z", "h")
    memory_gates = {"z": -1}

    def __init__(self, projection: ProjectionFactory, candidate: str = "linear"):
        super().__init__(projection)
        self.candidate = CANDIDATES[candidate]

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        z, h = self.split(x)
        z = torch.sigmoid(z)
        return 1 - z, z * self.candidate(h)


class MinLSTM(LinearRecurrence):
    """h_t = f' h_{t-1} + i' g(W_h x), f' = f / (f + i), i' = i / (f + i) (Feng et al. 2024).

    f and i are sigmoids of W_f x and W_i x; g is as in MinGRU.
    """

    inputs = ("f", "i", "h")
    memory_gates = {"f": +1, "i": -1}

    def __init__(self, projection: ProjectionFactory, candidate: str = "linear"):
        super().__init__(projection)
        self.candidate = CANDIDATES[candidate]

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        f, i, h = self.split(x)
        # f / (f + i), also where both are zero in this precision
        keep = torch.sigmoid(F.logsigmoid(f) - F.logsigmoid(i))
        return keep, (1 - keep) * self.candidate(h)


class GILR(LinearRecurrence):
    """h_t = g h_{t-1} + (1 - g) tanh(W_i x), g = sigmoid(W_g x) (Martin & Cundy 2018, "Gated impulse linear recurrent layer").

    The paper allows any function in the place of tanh.
    """

    inputs = ("g", "i")
    memory_gates = {"g": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        g, i = self.split(x)
        g = torch.sigmoid(g)
        return g, (1 - g) * torch.tanh(i)


class QRNN(LinearRecurrence):
    """c_t = f c_{t-1} + (1 - f) z, h_t = o c_t: fo-pooling after filters of width 1 (Bradbury et al. 2017).

    z = tanh(W_z x), f = sigmoid(W_f x), o = sigmoid(W_o x). In the authors' code (pytorch-qrnn) f weighs z, and 1 - f the
    old c.
    """

    inputs = ("z", "f", "o")
    states = ("h", "c")
    memory_gates = {"f": +1}

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        z, f, o = self.split(x)
        f = torch.sigmoid(f)
        return f, (1 - f) * torch.tanh(z), torch.sigmoid(o)

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        return rest[0] * c


class SRU(LinearRecurrence):
    """c_t = f c_{t-1} + (1 - f) W x, h_t = r g(c_t) + (1 - r) W_s x (Lei et al. 2018, without c_{t-1} in the gates).

    f = sigmoid(W_f x), r = sigmoid(W_r x). W_s x is the highway; the authors' code leaves W_s out where x is as wide as c,
    and has this cell as its version `v1`, with g = `activation`. The scaling of the highway in that code is left to the
    initialiser.
    """

    inputs = ("x", "f", "r", "s")
    states = ("h", "c")
    memory_gates = {"f": +1}

    def __init__(self, projection: ProjectionFactory, activation: str = "identity"):
        super().__init__(projection)
        self.tanh = {"identity": False, "tanh": True}[activation]

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        x, f, r, s = self.split(x)
        f = torch.sigmoid(f)
        return f, (1 - f) * x, torch.sigmoid(r), s

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        r, s = rest
        return r * (torch.tanh(c) if self.tanh else c) + (1 - r) * s


def log_of_power(decay: Tensor) -> Tensor:
    """Return log(sigmoid(decay)^8)."""
    return 8 * F.logsigmoid(decay)


class RGLRU(LinearRecurrence):
    """h_t = a h_{t-1} + sqrt(1 - a^2) (i * W x), a = sigmoid(decay)^(8 r) (De et al. 2024, eq. 1-4: the RG-LRU of Griffin).

    r = sigmoid(W_r x), i = sigmoid(W_i x). At initialisation sigmoid(decay)^8 is uniform in [0.9, 0.999] (section 2.4). W
    is the projection that Griffin has before the cell; there r and i read its output, here they read x. The authors' code
    (recurrentgemma) has block-diagonal W_r and W_i, draws sigmoid(decay) itself from that range, and takes the first step of
    a sequence without the factor sqrt(1 - a^2).
    """

    inputs = ("r", "i", "x")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.decay = projection.diagonal(parametrization=log_of_power)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        power = nn.init.uniform_(self.decay.weight, 0.9, 0.999, generator=generator) ** (1 / 8)
        self.decay.weight.copy_(torch.logit(power))

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        r, i, x = self.split(x)
        log_a = self.decay(torch.sigmoid(r).to(self.decay.weight.dtype))  # float32, where r is not
        weight = torch.sqrt((-torch.expm1(2 * log_a)).clamp_min(1e-12))  # the slope of a square root at 0 is infinite
        return log_a.exp(), weight * torch.sigmoid(i) * x
