"""Networks whose recurrent matrix is a product of rotations, each of two neighbouring units."""

import math

import torch
from torch import Tensor, nn

from .base import LastApart, State
from .projections import Projection, ProjectionFactory, add, along, parametrized
from .unitary import URNN, modrelu, polar, to_complex, to_real


def rotated(s: Tensor, turn: Tensor, phase: Tensor | None, shift: int) -> Tensor:
    """Replace every pair (a, b) of neighbours by (phase (a cos - b sin), a sin + b cos).

    s: (..., n); turn: cosines and sines, (n // 2, 2); phase: complex, (n // 2,); shift: the place of the first pair. The
    last pair may join the last unit and the first, which the papers leave alone. Of an odd number of units, one stays as it is.
    """
    s = s.roll(-shift, -1)
    pairs = 2 * turn.shape[-2]
    a, b, (cos, sin) = s[..., :pairs:2], s[..., 1:pairs:2], (along(part, -1) for part in turn.unbind(-1))
    first = a * cos - b * sin
    if phase is not None:
        first = first * along(phase, -1)
    turned = torch.stack([first, a * sin + b * cos], -1).flatten(-2)
    return torch.cat([turned, s[..., pairs:]], -1).roll(shift, -1)


class Rotations(Projection):
    """An orthogonal projection: `capacity` layers of rotations; in every second one the pairs are shifted by one place.

    weight: (capacity, n // 2) angles.
    """

    def __init__(self, units: int, capacity: int):
        super().__init__((capacity, units // 2), parametrization=polar)
        self.units = units

    @property
    def channels(self) -> int:
        return self.units

    @property
    def cost(self) -> int:
        return 4 * self.weight.numel()

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        for layer, turn in enumerate(self.matrix.to(s.dtype).unbind(-3)):
            s = rotated(s, turn, None, layer % 2)
        return add(s, plus)


class PhasedRotations(Projection):
    """A unitary projection: as Rotations, with a phase for each rotation, and at last one for each unit.

    s: (..., 2n), see to_complex. weight: (2 * capacity, n // 2), the angles of every layer, then its phases. phases: (n,),
    those of the units.
    """

    def __init__(self, units: int, capacity: int):
        super().__init__((2 * capacity, units // 2), parametrization=polar)
        self.phases = nn.Parameter(torch.empty(units))

    @property
    def channels(self) -> int:
        return 2 * len(self.phases)

    @property
    def cost(self) -> int:
        return 6 * self.weight.numel() + 4 * self.phases.numel()

    @property
    def matrix(self) -> Tensor:  # e^(i angle) of the weight, then of the phases, (..., numbers, 2)
        if self.held_matrix is not None:
            return self.held_matrix
        return parametrized(polar, torch.cat([self.weight.flatten(-2), self.phases], -1))

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        z, turns = to_complex(s), self.matrix
        pairs, last = turns.split([turns.shape[-2] - self.phases.shape[-1], self.phases.shape[-1]], -2)
        halves = pairs.unflatten(-2, self.weight.shape[-2:]).chunk(2, -3)
        for layer, (turn, phase) in enumerate(zip(*(half.unbind(-3) for half in halves), strict=True)):
            z = rotated(z, turn, torch.view_as_complex(phase), layer % 2)
        return add(to_real(z * along(torch.view_as_complex(last), -1), s.dtype), plus)


class EUNN(URNN):
    """z_t = modReLU(W z_{t-1} + V x_t + b) with W = D F_B F_A ... F_B F_A (Jing et al. 2017, the tunable form).

    F_A rotates the neighbours (1, 2), (3, 4), ... and F_B (2, 3), (4, 5), ..., of an even n also (n, 1), which the paper and its
    code leave as they are; D is a diagonal matrix of phases. `capacity` is the number of factors F; n of them reach every
    unitary matrix. State and output are those of the URNN.
    """

    def __init__(self, projection: ProjectionFactory, capacity: int = 2):
        super().__init__(projection)
        self.recurrent = PhasedRotations(projection.units, capacity)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.recurrent.phases, -math.pi, math.pi, generator=generator)  # type: ignore[arg-type]


class GORU(LastApart):
    """h_t = z h_{t-1} + (1 - z) modReLU(W_h x_t + r (U h_{t-1}) + b_h), gates r and z (Jing et al. 2019).

    U is orthogonal: a product of `capacity` layers of rotations, like the EUNN's without phases, the pair (n, 1) included. z
    weighs the old state, as in the paper. modReLU has a threshold beside b_h; the authors' code has the threshold alone.
    """

    inputs = ("r", "z", "h")
    memory_gates = {"z": +1}

    def __init__(self, projection: ProjectionFactory, capacity: int = 2):
        super().__init__(projection)
        self.gates = projection(2)
        self.rotation = Rotations(projection.units, capacity)
        self.threshold = nn.Parameter(torch.empty(projection.units))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (gates, new), (h,) = x, state
        r, z = self.split(torch.sigmoid(self.gates(h, gates)), 2)
        new = modrelu(new + r * self.rotation(h), self.threshold, parts=1)
        return (z * h + (1 - z) * new,)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.rotation.weight, -math.pi, math.pi, generator=generator)
