"""Eigenvalues of the recurrent matrices: what a product of equal Jacobians does to an error. Two sources: Pascanu, Mikolov &
Bengio 2013 as the RNN overview retells it (section 3.1, eq. 17 and 18), and the lecture on h_t = W^T h_{t-1}."""

from dataclasses import dataclass

import numpy as np
import torch

from ..cells.projections import Dense
from ..cells.rin import RIN
from ..errors import RequestError
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .subject import described, of_sequences

GAMMA = {"tanh or ReLU": 1.0, "sigmoid": 0.25}
"""Bounds of the derivatives of the functions that a recurrent product goes through."""


@dataclass(frozen=True)
class Eigenvalues(Result):
    """Of every square block (a gate's) of every dense recurrent map, RIN's with its identity. Pure numbers.

    modulus: (matrix, index), |lambda|, falling; norm: (matrix,), the largest singular value; powers: (matrix, step), the
    mean of |(W^T)^t h_0| / |h_0| over random h_0: t times the logarithm of the spectral radius, in the long run.
    An error that has no other way than the matrix vanishes for sure where norm < 1 / gamma, with gamma the bound on the
    function's derivative, 1 for tanh and 1/4 for the sigmoid (eq. 17); it can only explode where the norm is above that.
    The overview calls the quantity both the largest eigenvalue and the largest singular value: the bound is one of the
    singular value.
    """

    modulus: Array
    norm: Array
    powers: Array

    paper = "pascanu"
    section = "eq. 17-18 of the overview, section 3.1"

    @property
    def lines(self) -> list[str]:
        found = []
        for i, name in enumerate(self.norm.axis("matrix").ticks[:8]):
            radius, norm = self.modulus.values[i, 0], self.norm.values[i]
            sure = [text for text, gamma in GAMMA.items() if norm < 1 / gamma - 1e-6]
            through = f"through it alone and {' and '.join(sure)}"
            verdict = f"errors vanish for sure {through}" if sure else "no bound says that errors vanish"
            found.append(f"{name}: spectral radius {three_digits(radius)}, norm {three_digits(norm)}; {verdict}.")
        return found


@of_sequences
@torch.no_grad()
def eigenvalues(network: RecurrentNetwork, steps: int = 50, starts: int = 64, seed: int = 0) -> Eigenvalues:
    """Of a network as it is; `powers` are those of the linear network h_t = W^T h_{t-1} from `starts` random h_0.

    Maps that are not dense, or have no square blocks, are left out. Raises RequestError where that leaves none.
    """
    matrices: dict[str, torch.Tensor] = {}
    for depth, layer in enumerate(network.layers, start=1):
        for way, side in zip(layer.directions, ("", " backward"), strict=False):
            for name, m in way.cell.named_modules():
                if isinstance(m, Dense) and m.matrix.dim() == 2 and m.matrix.shape[0] % m.matrix.shape[1] == 0:
                    identity = isinstance(way.cell, RIN)  # added to h where others have their matrix alone
                    matrix = m.matrix.double().cpu() + identity * torch.eye(*m.matrix.shape)
                    blocks = matrix.split(matrix.shape[1])
                    gates = way.cell.inputs if len(blocks) == len(way.cell.inputs) else range(1, len(blocks) + 1)
                    for gate, block in zip(gates, blocks, strict=True):
                        label = f"{depth}{side} {name}" + (f" {gate}" if len(blocks) > 1 else "") + " + I" * identity
                        matrices[label] = block
    if not matrices:
        raise RequestError(f"{network.config.name} has no recurrent map that is a matrix of square blocks.")
    width = max(len(m) for m in matrices.values())
    generator = torch.Generator().manual_seed(seed)
    modulus = np.full((len(matrices), width), np.nan)
    norms, powers = [], []
    for i, m in enumerate(matrices.values()):
        found = torch.linalg.eigvals(m).abs().sort(descending=True).values
        modulus[i, : len(found)] = found.numpy()
        norms.append(float(torch.linalg.matrix_norm(m, 2)))
        h = torch.randn(len(m), starts, generator=generator, dtype=torch.float64)
        size, grown = h.norm(dim=0), []
        for _ in range(steps):
            h = m.T @ h
            grown.append(float((h.norm(dim=0) / size).mean()))
        powers.append(grown)
    axis = Axis("matrix", tuple(matrices))
    setting = {"of": described(network.config), "linear model": "h_t = W^T h_{t-1}", "starts": starts}
    return Eigenvalues(
        setting, Array(modulus, (axis, Axis.counted("index", width))), Array(np.array(norms), (axis,)),
        Array(np.array(powers).reshape(len(matrices), steps), (axis, Axis.counted("step", steps)), "|h_t| / |h_0|", log=True),
    )  # fmt: skip
