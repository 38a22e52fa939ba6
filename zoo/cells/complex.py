"""Cells that are linear in a complex diagonal state, and the same at every step: c_t = l c_{t-1} + b_t, h_t = Re(C c_t) + D x_t.

The state holds n real parts and then n imaginary ones. W x stands for W x_t + bias.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import RequestError
from .linear import LinearRecurrence
from .projections import ProjectionFactory, along


def ring(low: float, high: float) -> tuple[float, float]:
    """Return the smallest and the largest |l| of an LRU at initialisation. Raises RequestError if the ring is empty."""
    if low > high:
        raise RequestError(f"An LRU's min_radius, {low:g}, must not be larger than its max_radius, {high:g}.")
    return low, high


class LRU(LinearRecurrence):
    """c_t = l c_{t-1} + g W x, h_t = Re(C c_t) + D x, with complex c and W (Orvieto et al. 2023, section 3.4, eq. 7).

    l = exp(-exp(decay) + i exp(phase)). `normalisation` sets g: "tied" keeps g = sqrt(1 - |l|^2); "learned" starts there and
    trains g, as in the paper. At initialisation l is uniform on the ring min_radius <= |l| <= max_radius, with phases from 0
    to max_phase. There are `expand` complex states a unit. D is a matrix, where the authors have a vector, since x need not
    be as wide as h. The state here is c / g: g scales the matrix C in place of every input.
    """

    inputs = ("re", "im", "d")
    states = ("h", "c")
    float32_states = ("c",)
    complex_state = time_invariant = True

    def __init__(
        self, projection: ProjectionFactory, expand: int = 1, min_radius: float = 0.9, max_radius: float = 0.999,
        max_phase: float = 2 * math.pi, normalisation: str = "tied",
    ):  # fmt: skip
        super().__init__(projection)
        units, complex_states = projection.units, expand * projection.units
        self.expand, self.ring, self.max_phase = expand, ring(min_radius, max_radius), max_phase
        self.decay, self.phase = (nn.Parameter(torch.empty(complex_states)) for _ in range(2))
        self.log_gain = nn.Parameter(torch.empty(complex_states)) if normalisation == "learned" else None
        self.output = projection.between(
            2 * complex_states, units, bias=False, norm=False, parametrization=self._scaled
        )

    @classmethod
    def input_channels(cls, units: int, *, expand: int = 1, **options: Any) -> tuple[int, ...]:
        return (units,) * (2 * expand + 1)

    @classmethod
    def channels(cls, state: str, units: int, *, expand: int = 1, **options: Any) -> int:
        return 2 * expand * units if state == "c" else units

    def _tied_gain(self) -> Tensor:
        return torch.sqrt(-torch.expm1(-2 * self.decay.exp()))

    def _scaled(self, weight: Tensor) -> Tensor:
        gain = self._tied_gain() if self.log_gain is None else self.log_gain.exp()
        gain = torch.cat([gain, gain], -1)[..., None, :]
        return weight * gain if self.axis == -1 else weight * gain[..., None, None]

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        low, high = self.ring
        squared = nn.init.uniform_(self.decay, low**2, high**2, generator=generator)  # of |l|, so uniform in area
        self.decay.copy_(torch.log(-torch.log(squared) / 2))
        nn.init.uniform_(self.phase, generator=generator).mul_(self.max_phase).log_()
        if self.log_gain is not None:
            self.log_gain.copy_(self._tied_gain().log())

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        size, angle = torch.exp(-self.decay.exp()), self.phase.exp()
        a = along(torch.cat([size * angle.cos(), size * angle.sin()], -1), self.axis)
        units = x.shape[self.axis] // (2 * self.expand + 1)
        return a, *x.split([2 * self.expand * units, units], self.axis)

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        d = rest[0]
        return self.output(c.to(d.dtype), d)
