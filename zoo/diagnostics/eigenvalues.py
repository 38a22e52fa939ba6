"""Eigenvalues of the recurrent matrices: what a product of equal Jacobians does to an error.

Two sources: Pascanu, Mikolov & Bengio 2013 as the RNN overview retells it (section 3.1, eq. 17 and 18), and the lecture on
h_t = W^T h_{t-1}.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..cells.projections import Dense
from ..cells.rin import RIN
from ..errors import RequestError
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .subject import describe, requires_recurrent

GAMMA = {"tanh or ReLU": 1.0, "sigmoid": 0.25}
"""Bounds of the derivatives of activation functions."""


@dataclass(frozen=True)
class Eigenvalues(Result):
    """Spectra of every square block (a gate's) of every dense recurrent map; RIN's include its identity. Pure numbers.

    modulus: (matrix, index), |lambda| in descending order. norm: (matrix,), the largest singular value.
    powers: (matrix, step), the mean of |(W^T)^t h_0| / |h_0| over random h_0; in the long run its logarithm grows by that
    of the spectral radius per step.

    An error that passes through the matrix alone vanishes for sure if norm < 1 / gamma, where gamma bounds the derivative
    of the activation function: 1 for tanh and 1/4 for the sigmoid (eq. 17). It can only explode if the norm is larger. The
    overview calls the quantity both the largest eigenvalue and the largest singular value; the bound holds for the
    singular value.
    """

    modulus: Array
    norm: Array
    powers: Array

    paper = "pascanu"
    section = "eq. 17-18 of the overview, section 3.1"

    @property
    def lines(self) -> list[str]:
        lines = []
        for i, name in enumerate(self.norm.axis("matrix").ticks[:8]):
            radius, norm = self.modulus.values[i, 0], self.norm.values[i]
            functions = [text for text, gamma in GAMMA.items() if norm < 1 / gamma - 1e-6]
            through = f"through it alone and {' and '.join(functions)}"
            verdict = f"errors vanish for sure {through}" if functions else "no bound says that errors vanish"
            lines.append(f"{name}: spectral radius {three_digits(radius)}, norm {three_digits(norm)}; {verdict}.")
        return lines


@requires_recurrent
@torch.no_grad()
def eigenvalues(network: RecurrentNetwork, steps: int = 50, starts: int = 64, seed: int = 0) -> Eigenvalues:
    """Compute the spectra of a network's matrices, and the growth of h_t = W^T h_{t-1} from `starts` random h_0.

    Maps that are not dense, or have no square blocks, are left out. Raises RequestError if no map is left.
    """
    matrices = {
        label: matrix
        for depth, layer in enumerate(network.layers, start=1)
        for direction, side in zip(layer.directions, ("", " backward"), strict=False)
        for label, matrix in _square_blocks(direction, f"{depth}{side}")
    }
    if not matrices:
        raise RequestError(f"{network.config.name} has no recurrent map that is a matrix of square blocks.")
    width = max(map(len, matrices.values()))
    generator = torch.Generator().manual_seed(seed)
    modulus = np.full((len(matrices), width), np.nan)
    norms, powers = [], []
    for i, matrix in enumerate(matrices.values()):
        moduli = torch.linalg.eigvals(matrix).abs().sort(descending=True).values
        modulus[i, : len(moduli)] = moduli.numpy()
        norms.append(float(torch.linalg.matrix_norm(matrix, 2)))
        powers.append(_growth(matrix, steps, starts, generator))
    axis = Axis("matrix", tuple(matrices))
    setting = {"of": describe(network.config), "linear model": "h_t = W^T h_{t-1}", "starts": starts}
    power_axes = (axis, Axis.counted("step", steps))
    return Eigenvalues(
        setting, Array(modulus, (axis, Axis.counted("index", width))), Array(np.array(norms), (axis,)),
        Array(np.array(powers).reshape(len(matrices), steps), power_axes, "|h_t| / |h_0|", log=True),
    )  # fmt: skip


def _square_blocks(direction: Direction, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield a label and a matrix, (units, units), float64, for every square block of every dense recurrent map."""
    cell = direction.cell
    adds_identity = isinstance(cell, RIN)  # to h, where other cells have their matrix alone
    suffix = " + I" if adds_identity else ""
    for name, module in cell.named_modules():
        if (
            isinstance(module, Dense)
            and module.matrix.dim() == 2
            and module.matrix.shape[0] % module.matrix.shape[1] == 0
        ):
            matrix = module.matrix.double().cpu()
            if adds_identity:
                matrix = matrix + torch.eye(*matrix.shape)
            blocks = matrix.split(matrix.shape[1])
            gates = cell.inputs if len(blocks) == len(cell.inputs) else range(1, len(blocks) + 1)
            for gate, block in zip(gates, blocks, strict=True):
                yield f"{prefix} {name}{f' {gate}' if len(blocks) > 1 else ''}{suffix}", block


def _growth(
    matrix: Tensor,  # (units, units)
    steps: int,
    starts: int,
    generator: torch.Generator,
) -> list[float]:
    """Return the mean of |(W^T)^t h_0| / |h_0| over random h_0, for t = 1, ..., steps."""
    h = torch.randn(len(matrix), starts, generator=generator, dtype=torch.float64)
    first_norms, growth = h.norm(dim=0), []
    for _ in range(steps):
        h = matrix.T @ h
        growth.append(float((h.norm(dim=0) / first_norms).mean()))
    return growth
