"""An LSTM that conserves mass: all that flows in is stored or flows out, and nothing else is."""

from typing import Any

import torch
from torch import Tensor

from ..errors import RequestError
from .base import Cell, State
from .projections import Projection, ProjectionFactory, add


class BesideMasses(Projection):
    """Returns the first `masses` features unchanged, followed by W s + b of the other features s."""

    def __init__(self, masses: int, inputs: int, outputs: int):
        super().__init__((outputs, inputs - masses), bias=True)
        self.masses = masses

    @property
    def channels(self) -> int:
        return self.masses + self.weight.shape[-1]

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        masses, rest = s.split((self.masses, s.shape[-1] - self.masses), -1)
        return torch.cat([masses, add(rest @ self.matrix.mT, plus)], -1)


def columns_sum_to_one(weight: Tensor) -> Tensor:
    """Return the softmax of each column."""
    e = torch.exp(weight - weight.amax(-2, keepdim=True))
    return e / e.sum(-2, keepdim=True)


class MassLSTM(Cell):
    """h_t = o m; c_t = (1 - o) m; m = R c_{t-1} + I x_t, the mass-conserving LSTM (Hoedt et al. 2021).

    x_t are the first `mass` features of the input, all others a_t. The columns of R and I sum to 1 and o is a sigmoid, so
    the sum of x_1, ..., x_t is that of c_t and h_1, ..., h_t. With s = c_{t-1} / |c_{t-1}|_1, I is the softmax of W_i a_t +
    U_i s + b_i and o = sigmoid(W_o a_t + U_o s + b_o). R is the softmax of a matrix that starts near the identity, so R
    starts nearly uniform. The authors' code starts b_o at -3, here it starts at 0. The paper also has an R that depends on
    a_t and s.
    """

    inputs = ("i", "o")
    states = ("h", "c")
    memory_gates = {"o": -1}

    def __init__(self, projection: ProjectionFactory, mass: int = 1):
        super().__init__(projection)
        self.mass = mass
        self.sizes = self.input_channels(projection.units, mass=mass)
        self.recurrent = projection.between(projection.units, sum(self.sizes), bias=False, norm=False)
        self.redistribution = projection(parametrization=columns_sum_to_one)

    @classmethod
    def input_channels(cls, units: int, *, mass: int = 1, **options: Any) -> tuple[int, ...]:
        return units * mass, units

    @classmethod
    def input_projection(
        cls, projection: ProjectionFactory, width: int, *, mass: int = 1, **options: Any
    ) -> Projection:
        """Return the map for an input whose first `mass` channels are masses. Raises RequestError if it has fewer."""
        if mass > width:
            raise RequestError(f"An input of {width} features cannot have {mass} masses; lower the option mass.")
        return BesideMasses(mass, width, sum(cls.input_channels(projection.units, mass=mass)))

    def prepare(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.split((self.mass, x.shape[-1] - self.mass), -1)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (masses, seen), (_, c) = x, state
        share = c / (c.abs().sum(-1, keepdim=True) + 1e-5)  # 1e-5 as in the authors' code, for a cell without mass
        i, o = self.recurrent(share, seen).split(self.sizes, -1)
        entering = columns_sum_to_one(i.unflatten(-1, (-1, self.mass))) * masses.unsqueeze(-2)
        total = self.redistribution(c, entering.sum(-1))
        return torch.sigmoid(o) * total, torch.sigmoid(-o) * total

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        self.redistribution.weight.diagonal(dim1=-2, dim2=-1).add_(1.0)
