"""Networks whose recurrent matrix keeps every norm, or nearly so.

A complex state of n units has 2n channels, the imaginary parts behind the real ones.
"""

import math
import random
from functools import cache, partial

import torch
from torch import Tensor, nn

from .base import Cell, State
from .elman import RNN
from .projections import Projection, ProjectionFactory, add, along


def modrelu(s: Tensor, threshold: Tensor, parts: int = 2) -> Tensor:
    """ReLU(|z| + b) z / |z|: the phase of a complex z stays, its length is cut. With one part z is real.

    |z| is sqrt(|z|^2 + 1e-5), as in the code of Arjovsky et al., since 0 has no phase.
    """
    length = (s.unflatten(-1, (parts, -1)).square().sum(-2) + 1e-5).sqrt()
    scale = torch.relu(length + along(threshold, -1).to(s.dtype)) / length
    return s * torch.cat([scale] * parts, -1)


def to_complex(s: Tensor) -> Tensor:
    """(..., 2n) real to (..., n) complex, in single precision at least: there is no complex bfloat16."""
    real, imaginary = s.to(torch.promote_types(s.dtype, torch.float32)).chunk(2, -1)
    return torch.complex(real, imaginary)


def to_real(z: Tensor, dtype: torch.dtype) -> Tensor:
    """(..., n) complex to (..., 2n) real."""
    return torch.cat([z.real, z.imag], -1).to(dtype)


_PERMUTATIONS: dict[tuple[int, torch.device], Tensor] = {}


@cache
def _order(units: int) -> list[int]:
    """The fixed permutation Pi: the same wherever and whenever, by what Python promises of random()."""
    draw = random.Random(0)
    keys = [draw.random() for _ in range(units)]
    return sorted(range(units), key=keys.__getitem__)


def permutation(units: int, device: torch.device) -> Tensor:
    """Pi as indices, made once for a device; but what stands for a tensor while it is traced is of that trace alone."""
    if (known := _PERMUTATIONS.get((units, device))) is not None:
        return known
    with torch.inference_mode(False):  # kept beyond the caller's mode
        made = torch.tensor(_order(units), device=device)
    if type(made) is Tensor and not torch._is_functional_tensor(made) and not torch.compiler.is_compiling():
        _PERMUTATIONS[units, device] = made
    return made


class Evolution(Projection):
    """W = D3 R2 F^-1 D2 Pi R1 F D1 on complex vectors: phases D, reflections R, a permutation, the Fourier transform F.

    weight: (7, n), the angles of D1, D2 and D3 and the real and imaginary parts of the vectors of R1 and R2.
    """

    def __init__(self, units: int):
        super().__init__((7, units))

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
    """D z, D the diagonal of e^(i angle)."""
    return z * torch.polar(torch.ones_like(angles), angles)


def _reflected(z: Tensor, v: Tensor) -> Tensor:
    """R z = z - 2 v (v* z) / |v|^2; of v = 0, which has no direction, z."""
    inner = (z * v.conj()).sum(-1, keepdim=True)
    size = (v * v.conj()).sum(-1, keepdim=True)
    return z - 2 * v * inner / torch.where(size == 0, 1, size)


class URNN(Cell):
    """z_t = modReLU(W z_{t-1} + V x_t + b) with W = D3 R2 F^-1 D2 Pi R1 F D1 (Arjovsky, Shah & Bengio 2016).

    W is unitary whatever its 7n parameters are. The output is [Re z, Im z], 2n channels. The state starts at zero where
    the paper learns a start, and V x_t has a bias, as every input map here.
    """

    inputs = ("re", "im")

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent: Projection = Evolution(projection.units)
        self.threshold = nn.Parameter(torch.empty(projection.units))

    @classmethod
    def channels(cls, state: str, units: int) -> int:
        return 2 * units

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        return (modrelu(self.recurrent(state[0], x[0]), self.threshold),)


def _exponential(skew: Tensor) -> Tensor:
    """exp(K), orthogonal for K = -K^T; in single precision at least."""
    return torch.linalg.matrix_exp(skew.to(torch.promote_types(skew.dtype, torch.float32))).to(skew.dtype)


def unitary(weight: Tensor) -> Tensor:
    """exp(K + iS) as a real (2n, 2n) matrix, K and S the antisymmetric and the symmetric part of an (n, n) weight."""
    k, s = (weight - weight.mT) / 2, (weight + weight.mT) / 2
    return _exponential(torch.cat([torch.cat([k, -s], -1), torch.cat([s, k], -1)], -2))


class FullURNN(URNN):
    """The URNN with any unitary W (Wisdom, Powers, Hershey, Le Roux & Atlas 2016).

    The paper keeps W unitary by how it is trained, a multiplicative step along the Stiefel manifold. Here any
    optimiser does, because W is made from n^2 free numbers, as many as a unitary matrix has: W = exp(K + iS), with K
    antisymmetric and S symmetric, reaches every unitary matrix (Lezcano-Casado & Martinez-Rubio 2019).
    """

    def __init__(self, projection: ProjectionFactory):
        super().__init__(projection)
        self.recurrent = projection(parametrization=unitary)


def nearly_orthogonal(weight: Tensor, margin: float) -> Tensor:
    """U S V^T of one (n, n) weight: U of what lies below the diagonal, V of what lies above, S of the diagonal itself."""
    below, above = weight.tril(-1), weight.triu(1)
    u, v = _exponential(below - below.mT), _exponential(above - above.mT)
    s = 1 + 2 * margin * (torch.sigmoid(weight.diagonal(0, -2, -1)) - 0.5)
    return u * s.unsqueeze(-2) @ v.mT


class SoftOrthogonalRNN(RNN):
    """h_t = phi(W x_t + U S V^T h_{t-1} + b), U and V orthogonal, S diagonal within 1 - margin and 1 + margin.

    Vorontsov, Trabelsi, Kadoury & Pal 2017, with S = 1 + 2 margin (sigmoid(p) - 1/2). Their other way, a penalty on
    W^T W - I, is a term of a loss and no cell. They keep U and V orthogonal by Cayley steps of the optimiser; here both
    are exponentials, and with S take n^2 numbers, as many as a free matrix: the 18k of "Gating revisited", Table 1.
    """

    def __init__(self, projection: ProjectionFactory, activation: str = "tanh", margin: float = 0.1):
        super().__init__(projection, activation)
        self.recurrent = projection(parametrization=partial(nearly_orthogonal, margin=margin))
