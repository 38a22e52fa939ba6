"""Loops over several dimensions in C, for operations on tensors of several shapes."""

from collections.abc import Sequence
from math import prod

INDICES = "ijklmn"
"""Names of loop variables, from the innermost loop outwards."""


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor whose numbers lie one behind the other."""
    return tuple(prod(shape[place + 1 :]) for place in range(len(shape)))


def broadcast(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the strides that expand a contiguous tensor of this shape to `rank` dimensions, 0 where an entry repeats."""
    strides = tuple(0 if n == 1 else stride for n, stride in zip(shape, contiguous(shape), strict=True))
    return (0,) * (rank - len(shape)) + strides


def nest(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[str, list[str]]:
    """Return the C heads of nested loops over `shape`, and for each operand a C expression for the index of its entry.

    strides: those of each operand. Neighbouring dimensions that can be merged in all operands become one loop.
    """
    extents: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for place, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [each[place] for each in strides]
        if extents and all(step[-1] == stride * extent for step, stride in zip(steps, here, strict=True)):
            extents[-1] *= extent
            for step, stride in zip(steps, here, strict=True):
                step[-1] = stride
        else:
            extents.append(extent)
            for step, stride in zip(steps, here, strict=True):
                step.append(stride)
    names = INDICES[: len(extents)][::-1]
    heads = "".join(f"for ({name} = 0; {name} < {n}; {name}++) " for name, n in zip(names, extents, strict=True))
    return heads, [_place(names, step) for step in steps]


def _place(names: str, strides: Sequence[int]) -> str:
    """Return C for a sum of indices times strides."""
    terms = [name if n == 1 else f"{n} * {name}" for name, n in zip(names, strides, strict=True) if n]
    return " + ".join(terms) or "0"
