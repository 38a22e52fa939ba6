"""The gated linear recurrence of HGRN, complex as in the paper."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from .linear import LinearRecurrence
from .projections import ProjectionFactory, along


class HGRN(LinearRecurrence):
    """h_t = l_t e^(i theta) h_{t-1} + (1 - l_t) c_t, l_t = g + (1 - g) sigmoid(W_mu x) (Qin et al. 2023).

    The HGRU of the paper: h and c are complex, both parts of c_t are SiLU(W_c x), theta does not depend on the input, and g
    is the lower bound of the forget gates. o_t = W_o (sigmoid(W_g x) * [Re h_t, Im h_t]). The paper ties the g of all
    layers by a cumulative softmax over depth; here each layer learns its own, sigmoid(bound), from 0.5. The layer norm that
    the authors' code has before W_o is left to blocks; W_o has no bias here. Of the three versions of that code, the first
    has SiLU for the output gate's sigmoid.
    """

    inputs = ("mu", "re", "im", "g_re", "g_im")
    states = ("o", "h")
    float32_states = ("h",)
    memory_gates = {"mu": +1}
    complex_state = True

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        units = projection.units
        self.bound, self.theta = (nn.Parameter(torch.empty(units)) for _ in range(2))
        self.output = projection.between(2 * units, units, bias=False, norm=False)

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 2 * units if state == "h" else units

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        units = self.theta.shape[-1]
        self.theta.copy_(
            torch.exp(torch.arange(units, dtype=torch.float32) * (-2 * math.log(1e4) / units))
        )  # 10000^(-2n / units)

    def coefficients(self, x: Tensor) -> tuple[Tensor, ...]:
        mu, re, im, *g = self.split(x)
        bound, theta = (along(p, self.axis) for p in (self.bound.sigmoid(), self.theta))
        keep = bound + (1 - bound) * torch.sigmoid(mu)  # in float32, where mu is not
        a = torch.cat([keep * theta.cos(), keep * theta.sin()], self.axis)
        c = nn.functional.silu(torch.cat([re, im], self.axis))
        b = torch.cat([1 - keep] * 2, self.axis).to(c.dtype) * c
        return a, b, torch.sigmoid(torch.cat(g, self.axis))

    def read(self, c: Tensor, *rest: Tensor) -> Tensor:
        return self.output(rest[0] * c.to(rest[0].dtype))
