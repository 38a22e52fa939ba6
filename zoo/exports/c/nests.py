"""Loops over several dimensions in C, for operations on tensors of several shapes."""

from collections.abc import Sequence
from math import prod

INDICES = "ijklmn"
"""Names of loop variables, from the innermost loop outwards."""


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor of this shape."""
    return tuple(prod(shape[place + 1 :]) for place in range(len(shape)))


def broadcast(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the strides that broadcast a contiguous tensor of this shape to `rank` dimensions, 0 in repeated dimensions."""
    strides = tuple(0 if n == 1 else stride for n, stride in zip(shape, contiguous(shape), strict=True))
    return (0,) * (rank - len(shape)) + strides


def nest(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[str, list[str]]:
    """Return the `for (...)` of nested C loops over `shape`, and for each operand the C expression for its number's index.

    strides: for each operand, its strides over `shape`. Neighbouring dimensions that can be merged in all operands become one
    loop.
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
    """Return the C expression for a sum of loop variables times strides. names: the variables, one letter each."""
    terms = [name if n == 1 else f"{n} * {name}" for name, n in zip(names, strides, strict=True) if n]
    return " + ".join(terms) or "0"
