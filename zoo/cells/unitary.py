"""Networks whose recurrent matrix preserves norms, exactly or nearly.

A complex state of n units has 2n channels: n real parts, then n imaginary parts.
"""

import math
import random
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from ..utils.torch_internals import is_functional
from .base import Cell, State
from .elman import RNN
from .projections import Projection, ProjectionFactory, add, along


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
    real, imaginary = s.to(torch.promote_types(s.dtype, torch.float32)).chunk(2, -1)
    return torch.complex(real, imaginary)


def to_real(z: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (..., n) complex numbers as (..., 2n) real ones."""
    return torch.cat([z.real, z.imag], -1).to(dtype)


_PERMUTATIONS: dict[tuple[int, torch.device], Tensor] = {}


@cache
def _order(units: int) -> list[int]:
    """Return the fixed permutation Pi. Python promises that random() gives the same numbers on every machine."""
    generator = random.Random(0)
    keys = [generator.random() for _ in range(units)]
    return sorted(range(units), key=keys.__getitem__)


def permutation(units: int, device: torch.device) -> Tensor:
    """Return Pi as indices, cached for each device. A tensor that belongs to a trace is not cached."""
    if (cached := _PERMUTATIONS.get((units, device))) is not None:
        return cached
    with torch.inference_mode(False):  # the cache outlives the caller's mode
        indices = torch.tensor(_order(units), device=device)
    if type(indices) is Tensor and not is_functional(indices) and not torch.compiler.is_compiling():
        _PERMUTATIONS[units, device] = indices
    return indices


class Evolution(Projection):
    """W = D3 R2 F^-1 D2 Pi R1 F D1 on complex vectors (Arjovsky et al. 2016).

    D are diagonal matrices of phases, R reflections, Pi a permutation, F the Fourier transform. weight: (7, n), the angles of
    D1, D2 and D3, then the real and the imaginary part of the vector of R1, then those of R2.
    """

    def __init__(self, units: int):
        super().__init__((7, units))

    @property
    def channels(self) -> int:
        return 2 * self.weight.shape[-1]

    @property
    def cost(self) -> int:
        n = self.weight.shape[-1]
        return math.ceil(4 * n * (7 + math.log2(n)))  # four for each complex product

    def product(self, s: Tensor, plus: Tensor | None) -> Tensor:
        weight = self.weight.to(torch.promote_types(s.dtype, torch.float32))
        d1, d2, d3, *parts = (along(row, -1) for row in weight.unbind(-2))
        r1, r2 = torch.complex(parts[0], parts[1]), torch.complex(parts[2], parts[3])
        z = torch.fft.fft(_turned(to_complex(s), d1))
        z = _turned(_reflected(z, r1)[..., permutation(z.shape[-1], z.device)], d2)
        return add(to_real(_turned(_reflected(torch.fft.ifft(z), r2), d3), s.dtype), plus)


def _turned(z: Tensor, angles: Tensor) -> Tensor:
    """Return D z, where D is the diagonal matrix of e^(i angle)."""
    return z * torch.polar(torch.ones_like(angles), angles)


def _reflected(z: Tensor, v: Tensor) -> Tensor:
    """Return R z = z - 2 v (v* z) / |v|^2; z itself for v = 0, which has no direction."""
    inner = (z * v.conj()).sum(-1, keepdim=True)
    size = (v * v.conj()).sum(-1, keepdim=True)
    return z - 2 * v * inner / torch.where(size == 0, 1, size)


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


def _exponential(skew: Tensor) -> Tensor:
    """Return exp(K), which is orthogonal if K = -K^T; computed in float32 at least."""
    return torch.linalg.matrix_exp(skew.to(torch.promote_types(skew.dtype, torch.float32))).to(skew.dtype)


def unitary(weight: Tensor) -> Tensor:
    """Return exp(K + iS) as a real (2n, 2n) matrix; K is the antisymmetric and S the symmetric part of an (n, n) weight."""
    k, s = (weight - weight.mT) / 2, (weight + weight.mT) / 2
    return _exponential(torch.cat([torch.cat([k, -s], -1), torch.cat([s, k], -1)], -2))


class FullURNN(URNN):
    """The URNN with an unrestricted unitary W (Wisdom, Powers, Hershey, Le Roux & Atlas 2016).

    The paper keeps W unitary by an optimiser that steps along the Stiefel manifold. Here any optimiser will do: W =
    exp(K + iS), with K antisymmetric and S symmetric, takes n^2 free numbers and reaches every unitary matrix
    (Lezcano-Casado & Martinez-Rubio 2019).
    """

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(parametrization=unitary)


def nearly_orthogonal(weight: Tensor, margin: float) -> Tensor:
    """Return U S V^T for an (n, n) weight: U from below its diagonal, V from above it, S from the diagonal itself."""
    below, above = weight.tril(-1), weight.triu(1)
    u, v = _exponential(below - below.mT), _exponential(above - above.mT)
    s = 1 + 2 * margin * (torch.sigmoid(weight.diagonal(0, -2, -1)) - 0.5)
    return u * s.unsqueeze(-2) @ v.mT


class SoftOrthogonalRNN(RNN):
    """h_t = phi(W x_t + U S V^T h_{t-1} + b), U and V orthogonal, S diagonal within 1 - margin and 1 + margin.

    Vorontsov, Trabelsi, Kadoury & Pal 2017, with S = 1 + 2 margin (sigmoid(p) - 1/2). The paper keeps U and V orthogonal by
    Cayley steps of the optimiser. Here both are exponentials, so U, V and S together take n^2 numbers, as many as a free
    matrix: the 18k of "Gating revisited", Table 1. The paper's alternative, a penalty on W^T W - I, belongs to a loss.
    """

    def __init__(self, projection: ProjectionFactory, activation: str = "tanh", margin: float = 0.1):
        super().__init__(projection, activation)
        self.recurrent = projection(parametrization=partial(nearly_orthogonal, margin=margin))
