"""FastRNN and FastGRNN (Kusupati, Singh, Bhatia, Kumar, Jain & Varma 2018): a weighted residual sum, and one with a gate.

The recurrent matrix has full rank, or is a product U_1 U_2 of the option `recurrent_rank`. Of the initial values, those of
alpha, beta, zeta and nu are the authors' (microsoft/EdgeML).
"""

import torch
from torch import Tensor, nn

from ..errors import RequestError
from .base import Cell, State
from .projections import Projection, ProjectionFactory, along, at_every_step


class LowRank(Cell):
    """Base of FastRNN and FastGRNN: computes U h_{t-1}, where U has rank `recurrent_rank`, or full rank if that is 0.

    Raises RequestError for a rank above the number of units.
    """

    def __init__(self, projection: ProjectionFactory, recurrent_rank: int = 0):
        super().__init__(projection)
        if recurrent_rank > projection.units:
            raise RequestError(f"A recurrent matrix of {projection.units} units has no rank of {recurrent_rank}.")
        self.down: Projection | None = None
        self.recurrent = projection()
        if recurrent_rank:
            self.down = projection.between(projection.units, recurrent_rank, bias=False, norm=False)
            self.recurrent = projection.between(
                recurrent_rank, projection.units, bias=False, norm=projection.layer_norm
            )

    def moved(self, h: Tensor, plus: Tensor) -> Tensor:
        """Return U h + plus."""
        return self.recurrent(h if self.down is None else self.down(h), plus)


class FastRNN(LowRank):
    """h_t = alpha tanh(W x_t + U h_{t-1} + b) + beta h_{t-1}, where alpha and beta are numbers between 0 and 1.

    Each is the sigmoid of a parameter; those start at -3 and 3.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory, recurrent_rank: int = 0):
        super().__init__(projection, recurrent_rank)
        self.alpha, self.beta = (nn.Parameter(torch.empty(1)) for _ in range(2))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, *(at_every_step(torch.sigmoid(p), x, self.axis) for p in (self.alpha, self.beta))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (new, alpha, beta), (h,) = x, state
        return (alpha * torch.tanh(self.moved(h, new)) + beta * h,)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.constant_(self.alpha, -3.0)
        nn.init.constant_(self.beta, 3.0)


class FastGRNN(LowRank):
    """h_t = (zeta (1 - z) + nu) tanh(a + b_h) + z h_{t-1}, z = sigmoid(a + b_z), a = W x_t + U h_{t-1}.

    Gate and candidate share both matrices. zeta and nu are sigmoids of parameters that start at 1 and -4. The input
    projection's bias is b_z, and `offset` is b_h - b_z.
    """

    inputs = ("z",)

    def __init__(self, projection: ProjectionFactory, recurrent_rank: int = 0):
        super().__init__(projection, recurrent_rank)
        self.zeta, self.nu = (nn.Parameter(torch.empty(1)) for _ in range(2))
        self.offset = nn.Parameter(torch.empty(projection.units))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x, *(at_every_step(torch.sigmoid(p), x, self.axis) for p in (self.zeta, self.nu))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (u, zeta, nu), (h,) = x, state
        a = self.moved(h, u)
        z = torch.sigmoid(a)
        new = torch.tanh(a + along(self.offset, self.axis).to(a.dtype))
        return ((zeta * (1 - z) + nu) * new + z * h,)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.ones_(self.zeta)
        nn.init.constant_(self.nu, -4.0)
