"""Code that the pointwise parts of all cells in Triton share: activation functions, and Pointwise, by which they are listed."""

# mypy: ignore-errors
# Triton compiles the functions below; their annotations are its own.

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    """Return tanh(x), exact to within rounding. The hardware's tanh has 11 bits; 1 - e^-2x alone is inexact near zero."""
    e, s = tl.exp(-2.0 * tl.abs(x)), x * x
    far = (1.0 - e) / (1.0 + e)
    near = (((-6.6157491e-3 * s + 2.1312742e-2) * s - 5.3910065e-2) * s + 0.13333118) * s - 0.33333331
    return tl.where(s < 0.3, x + x * (s * near), tl.where(x < 0, -far, far))


@triton.jit
def relu(x):
    return tl.where(x < 0, 0.0, x)  # tl.maximum would lose NaN


@triton.jit
def relu_gradient(y, g):
    return tl.where(y <= 0, 0.0, g)


@dataclass(frozen=True)
class Pointwise:
    """A cell's pointwise functions, and the size of its tape in tiles. A tile is (sequences, units).

    tape: the number of tiles that a step writes or, with `tape_per_phase`, that a phase writes. operand: the index of the
    tile that later phases multiply with matrices.
    """

    forward: Any
    backward: Any
    tape: int
    operand: int = 0
    tape_per_phase: bool = False

    def tape_blocks(self, phases: int) -> int:
        """Return the number of tiles that a step of `phases` phases writes to the tape, which the backward pass reads."""
        return self.tape * (phases if self.tape_per_phase else 1)
