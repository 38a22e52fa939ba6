"""Diagonal state-space models, the same at every step: x_t = l x_{t-1} + b_t, y_t = 2 Re(C x_t) + D u_t, with complex x.

A state holds n real parts and then n imaginary ones; each stands for a conjugate pair, hence the 2. Both cells discretise
a continuous system dx/dt = A x + B u by a learned step Delta.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import RequestError
from .linear import LinearRecurrence, System, times
from .projections import ProjectionFactory, along


def discretised(re: Tensor, im: Tensor, delta: Tensor, method: str) -> tuple[Tensor, Tensor]:
    """Return (A bar, B bar / B) for A = re + i im, each with real parts and then imaginary ones along the last dimension.

    "zoh": A bar = exp(Delta A), B bar = (A bar - 1) / A. "bilinear": A bar = (1 + Delta A / 2) / (1 - Delta A / 2), B bar =
    Delta / (1 - Delta A / 2).
    """
    x, y = delta * re, delta * im
    if method == "zoh":
        growth = torch.exp(x)
        a = torch.cat([growth * y.cos(), growth * y.sin()], -1)
        # exp(z) - 1 for small z = x + i y, without cancellation
        shifted = torch.cat([torch.expm1(x) * y.cos() - 2 * (y / 2).sin() ** 2, growth * y.sin()], -1)
        inverse = torch.cat([re, -im], -1) / torch.cat([re**2 + im**2] * 2, -1)
        return a, times(shifted, inverse)
    size = (1 - x / 2) ** 2 + (y / 2) ** 2
    inverse = torch.cat([(1 - x / 2) / size, y / 2 / size], -1)
    return times(torch.cat([1 + x / 2, y / 2], -1), inverse), torch.cat([delta, delta], -1) * inverse


def hippo_frequencies(count: int) -> Tensor:
    """Return the positive imaginary parts of the eigenvalues of the normal part of HiPPO-LegS, of 2 `count` rows."""
    root = torch.sqrt(torch.arange(2 * count, dtype=torch.float64) + 0.5)
    skew = torch.outer(root, root).tril(-1)  # the normal part is -1/2 I - (skew - skew^T)
    return torch.linalg.eigvalsh(torch.complex(torch.zeros_like(skew), skew - skew.T))[count:]


def initial_spectrum(name: str, count: int) -> tuple[Tensor, Tensor]:
    """Return (-real, imaginary) parts of `count` entries of A at initialisation. name: see S4D."""
    n, states = torch.arange(count, dtype=torch.float32), 2 * count
    return {
        "lin": (0.5 + 0 * n, math.pi * n),
        "inv": (0.5 + 0 * n, states / math.pi * (states / (2 * n + 1) - 1)),
        "real": (n + 1.0, 0.0 * n),
    }[name]


class S4D(LinearRecurrence):
    """y_t = 2 Re(sum of C x_t) + D u_t, x_t = A bar x_{t-1} + B bar u_t for each unit, u = W x + bias (Gu et al. 2022).

    A unit has `states` complex numbers, half of the paper's N, and a system of its own, with one input and one output.
    `spectrum` is A at initialisation: "lin" -1/2 + i pi n, "inv" -1/2 + i (N / pi) (N / (2n + 1) - 1), or "real"
    -(n + 1). `discretization` is "zoh" or "bilinear". B and C enter as their product only: B is 1. Initial values are those of
    the authors' code: Delta log-uniform in [0.001, 0.1], C of variance 1, D normal.
    """

    inputs = ("u",)
    states = ("y", "x")
    float32_states = ("x",)
    complex_state = time_invariant = True

    def __init__(
        self, projection: ProjectionFactory, states: int = 32, spectrum: str = "lin", discretization: str = "zoh"
    ):
        super().__init__(projection)
        self.count, self.spectrum, self.discretization = states, spectrum, discretization
        units = projection.units
        self.log_decay, self.frequency = (nn.Parameter(torch.empty(units * states)) for _ in range(2))
        self.log_step, self.skip = (nn.Parameter(torch.empty(units)) for _ in range(2))
        self.output = nn.Parameter(torch.empty(2 * units * states))

    @classmethod
    def channels(cls, state: str, units: int, *, states: int = 32, **options: Any) -> int:
        return 2 * units * states if state == "x" else units

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        decay, frequency = initial_spectrum(self.spectrum, self.count)
        self.log_decay.copy_(decay.log().repeat(self.skip.shape[-1]))
        self.frequency.copy_(frequency.repeat(self.skip.shape[-1]))
        nn.init.uniform_(self.log_step, math.log(1e-3), math.log(1e-1), generator=generator)
        nn.init.normal_(self.output, 0.0, math.sqrt(0.5), generator=generator)
        nn.init.normal_(self.skip, generator=generator)

    def system(self) -> System:
        parts = (each.float().unflatten(0, (2, -1, self.count)) for each in (*self.transition(), self.output))
        a, b, c = (torch.complex(re, im) for re, im in parts)
        return System(a, b, c, self.skip.float())

    def transition(self) -> tuple[Tensor, Tensor]:
        """Return A bar and B bar, each (2 * units * states,): real parts, then imaginary ones."""
        delta = self.log_step.exp().repeat_interleave(self.count, -1)
        return discretised(-self.log_decay.exp(), self.frequency, delta, self.discretization)

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        a, gain = self.transition()
        u = x.repeat_interleave(self.count, self.axis)
        b = torch.cat([u, u], self.axis) * along(gain, self.axis).to(x.dtype)
        return along(a, self.axis), b, x

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        u = rest[0]
        re, im = (c * along(self.output, self.axis)).chunk(2, self.axis)
        y = 2 * (re - im).unflatten(self.axis, (-1, self.count)).sum(self.axis)
        return y.to(u.dtype) + along(self.skip, self.axis).to(u.dtype) * u


class S5(LinearRecurrence):
    """y_t = 2 Re(C x_t) + D u_t, x_t = A bar x_{t-1} + B bar u_t, one system for all units (Smith et al. 2023).

    `states` is the number of complex numbers, half of the paper's P. A starts as those eigenvalues of the normal part of
    HiPPO-LegS with positive imaginary parts, or of `blocks` smaller such matrices, as equal as can be. Each number has its
    own Delta; A is discretised as in S4D. B and D are the input projection; D is a matrix, where the authors' code has a
    vector, since u need not be as wide as y. That code starts B and C in the basis of the eigenvectors; here they start as
    a specification says, and Re A = -exp(log_decay) is always negative, where that code has Re A itself. There can be no more
    blocks than states.
    """

    inputs = ("re", "im", "d")
    states = ("y", "x")
    float32_states = ("x",)
    complex_state = time_invariant = True

    def __init__(self, projection: ProjectionFactory, states: int = 32, blocks: int = 1, discretization: str = "zoh"):
        super().__init__(projection)
        if blocks > states:
            raise RequestError(f"{states} states cannot form {blocks} blocks.")
        self.count, self.blocks, self.discretization = states, blocks, discretization
        self.log_decay, self.frequency, self.log_step = (nn.Parameter(torch.empty(states)) for _ in range(3))
        self.output = projection.between(2 * states, projection.units, bias=False, norm=False)

    @classmethod
    def channels(cls, state: str, units: int, *, states: int = 32, **options: Any) -> int:
        return 2 * states if state == "x" else units

    @classmethod
    def input_channels(cls, units: int, *, states: int = 32, **options: Any) -> tuple[int, ...]:
        return states, states, units

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        sizes = [len(block) for block in torch.arange(self.count).tensor_split(self.blocks)]
        nn.init.constant_(self.log_decay, math.log(0.5))
        self.frequency.copy_(torch.cat([hippo_frequencies(size) for size in sizes]))
        nn.init.uniform_(self.log_step, math.log(1e-3), math.log(1e-1), generator=generator)

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        a, gain = discretised(-self.log_decay.exp(), self.frequency, self.log_step.exp(), self.discretization)
        bu, d = x.tensor_split([2 * self.count], self.axis)
        gain = along(gain, self.axis).to(x.dtype)
        return along(a, self.axis), times(gain, bu, self.axis), d

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        d = rest[0]
        return self.output(2 * c.to(d.dtype), d)
