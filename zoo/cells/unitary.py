"""Networks whose recurrent matrix preserves norms, exactly or nearly.

A complex state of n units has 2n channels: n real parts, then n imaginary parts.
"""

import math
import random
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .base import Cell, State
from .constants import constant
from .elman import RNN
from .exponential import exponential
from .projections import Projection, ProjectionFactory, add, along, at_least_float32


def modrelu(s: Tensor, threshold: Tensor, parts: int = 2) -> Tensor:
    """Return ReLU(|z| + b) z / |z|, which changes the modulus of z and keeps its phase (Arjovsky et al. 2016).

    s: (..., parts * n), the real and imaginary parts of z, or with parts=1 a real z. threshold: b, (n,). As in the authors'
    code, |z| is sqrt(|z|^2 + 1e-5), because 0 has no phase.
    """
    length = (s.unflatten(-1, (parts, -1)).square().sum(-2) + 1e-5).sqrt()
    scale = torch.relu(length + along(threshold, -1).to(s.dtype)) / length
    return s * torch.cat([scale] * parts, -1)


def to_complex(s: Tensor) -> Tensor:
    """Return (..., 2n) real numbers as (..., n) complex ones, in float32 at least: there is no complex bfloat16."""
    real, imaginary = at_least_float32(s).chunk(2, -1)
    return torch.complex(real, imaginary)


def to_real(z: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (..., n) complex numbers as (..., 2n) real ones."""
    return torch.cat([z.real, z.imag], -1).to(dtype)


def _order(units: int) -> list[int]:
    """Return the fixed permutation Pi. Python promises that random() gives the same numbers on every machine."""
    generator = random.Random(0)
    keys = [generator.random() for _ in range(units)]
    return sorted(range(units), key=keys.__getitem__)


def polar(angles: Tensor) -> Tensor:
    """Return e^(i angle) of angles, (..., n), as real and imaginary parts, (..., n, 2), in float32 at least."""
    angles = at_least_float32(angles)
    return torch.stack([angles.cos(), angles.sin()], -1)


def _factors(weight: Tensor) -> Tensor:
    """Return the weight of an Evolution as complex numbers, (..., 5, n, 2): e^(i angle) of D1, D2, D3, then the vectors of R1 and R2.

    The vectors get the length sqrt(2), for which R z = z - v (v* z); a vector of zeros stays so.
    """
    vectors = at_least_float32(weight[..., 3:, :]).unflatten(-2, (2, 2)).mT
    size = vectors.square().sum((-2, -1), keepdim=True)
    vectors = vectors * torch.sqrt(2 / torch.where(size == 0, 1, size))
    return torch.cat([polar(weight[..., :3, :]), vectors], -3)


class Evolution(Projection):
    """W = D3 R2 F^-1 D2 Pi R1 F D1 on complex vectors (Arjovsky et al. 2016).

    D are diagonal matrices of phases, R reflections, Pi a permutation, F the Fourier transform. weight: (7, n), the angles of
    D1, D2 and D3, then the real and the imaginary part of the vector of R1, then those of R2.
    """

    def __init__(self, units: int):
        super().__init__((7, units), parametrization=_factors)

    @property
    def channels(self) -> int:
        return 2 * self.weight.shape[-1]

    @property
    def cost(self) -> int:
        n = self.weight.shape[-1]
        return math.ceil(4 * n * (7 + math.log2(n)))  # four for each complex product

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        z = to_complex(s)
        d1, d2, d3, r1, r2 = (along(row, -1) for row in self.factors.unbind(-2))
        z = _reflected(torch.fft.fft(z * d1), r1)[..., constant(_order, z.shape[-1], device=z.device)]
        return add(to_real(_reflected(torch.fft.ifft(z * d2), r2) * d3, s.dtype), plus)

    @property
    def factors(self) -> Tensor:  # D1, D2, D3, R1 and R2, (..., 5, n), complex
        return torch.view_as_complex(self.matrix)


def _reflected(z: Tensor, v: Tensor) -> Tensor:
    """Return R z = z - v (v* z), the reflection at v of length sqrt(2)."""
    return z - v * (z * v.conj()).sum(-1, keepdim=True)


class URNN(Cell):
    """z_t = modReLU(W z_{t-1} + V x_t + b) with W = D3 R2 F^-1 D2 Pi R1 F D1 (Arjovsky, Shah & Bengio 2016).

    W is unitary whatever its 7n parameters are. The output is [Re z, Im z], 2n channels. Two things differ from the paper:
    the initial state is zero rather than learned, and V x_t has a bias, as every input projection here.
    """

    inputs = ("re", "im")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent: Projection = Evolution(projection.units)
        self.threshold = nn.Parameter(torch.empty(projection.units))

    @classmethod
    def channels(cls, state: str, units: int, **options: Any) -> int:
        return 2 * units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (modrelu(self.recurrent(state[0], x[0]), self.threshold),)


def unitary(weight: Tensor) -> Tensor:
    """Return exp(K + iS) as a real (2n, 2n) matrix; K is the antisymmetric and S the symmetric part of an (n, n) weight."""
    w = at_least_float32(weight)
    u = exponential(torch.complex((w - w.mT) / 2, (w + w.mT) / 2))
    matrix = torch.cat([torch.cat([u.real, -u.imag], -1), torch.cat([u.imag, u.real], -1)], -2)
    return matrix.to(weight.dtype)


class FullURNN(URNN):
    """The URNN with an unrestricted unitary W (Wisdom, Powers, Hershey, Le Roux & Atlas 2016).

    The paper keeps W unitary by an optimizer that steps along the Stiefel manifold. Here any optimizer will do: W =
    exp(K + iS), with K antisymmetric and S symmetric, takes n^2 free numbers and reaches every unitary matrix
    (Lezcano-Casado & Martinez-Rubio 2019).
    """

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(parametrization=unitary)


def _orthogonal(triangle: Tensor) -> Tensor:
    """Return exp(T - T^T), which is orthogonal."""
    t = at_least_float32(triangle)
    return exponential(t - t.mT).to(triangle.dtype)


def nearly_orthogonal(weight: Tensor, margin: float) -> Tensor:
    """Return U S V^T for an (n, n) weight: U from below its diagonal, V from above it, S from the diagonal itself."""
    u, v = (_orthogonal(part) for part in (weight.tril(-1), weight.triu(1)))
    s = 1 + 2 * margin * (torch.sigmoid(weight.diagonal(0, -2, -1)) - 0.5)
    return u * s.unsqueeze(-2) @ v.mT


class SoftOrthogonalRNN(RNN):
    """h_t = phi(W x_t + U S V^T h_{t-1} + b), U and V orthogonal, S diagonal within 1 - margin and 1 + margin.

    Vorontsov, Trabelsi, Kadoury & Pal 2017, with S = 1 + 2 margin (sigmoid(p) - 1/2). The paper keeps U and V orthogonal by
    Cayley steps of the optimizer. Here both are exponentials, so U, V and S together take n^2 numbers, as many as a free
    matrix: the 18k of "Gating revisited", Table 1. The paper's alternative, a penalty on W^T W - I, belongs to a loss.
    """

    def __init__(self, projection: ProjectionFactory, activation: str = "tanh", margin: float = 0.1):
        super().__init__(projection, activation)
        self.recurrent = projection(parametrization=partial(nearly_orthogonal, margin=margin))


def rotation(weight: Tensor) -> Tensor:
    """Return exp(A) for A = T - T^T, where T is what the weight has above its diagonal."""
    return _orthogonal(weight.triu(1))


class ExpRNN(Cell):
    """h_t = modReLU(exp(A) h_{t-1} + W x_t + b), A antisymmetric (Lezcano-Casado & Martinez-Rubio 2019).

    A starts block-diagonal, with blocks [[0, s], [-s, 0]]: the Cayley start of the authors' code, s = -sqrt((1 - cos u) /
    (1 + cos u)) for u from U(0, pi / 2). The thresholds of modReLU start from U(-0.01, 0.01). Two things differ from that
    code: W x_t has a bias, and |z| is the smooth one of `modrelu`.
    """

    inputs = ("h",)

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.rotation = projection(parametrization=rotation)
        self.threshold = nn.Parameter(torch.empty(projection.units))

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (modrelu(self.rotation(state[0], x[0]), self.threshold, parts=1),)

    def set_initial_values(self, generator: torch.Generator, steps: int) -> None:
        nn.init.uniform_(self.threshold, -0.01, 0.01, generator=generator)
        nn.init.zeros_(self.rotation.weight)
        blocks = self.rotation.weight.diagonal(1, -2, -1)[..., ::2]
        blocks.uniform_(0.0, math.pi / 2, generator=generator)
        blocks.copy_(-torch.sqrt((1 - blocks.cos()) / (1 + blocks.cos())))
