"""Marks, shapes and inputs that the tests of networks share."""

from collections.abc import Container, Iterable
from itertools import product

import pytest
import reference
import torch
from helpers import (
    CASES,
    MERGES,
    READOUTS,
    each,
    in_each_form,
    normal,
)
from torch import Tensor

from zoo.cells import CELLS
from zoo.networks.network import Network

each_cell = each("cell", CELLS)
each_case = each("case", CASES)
each_cell_in_each_form = in_each_form("cell", CELLS)
each_cell_with_zoneout = each("cell", CELLS, "zoneout")
each_readout = pytest.mark.parametrize("readout", READOUTS)
each_merge = pytest.mark.parametrize("merge", [None, *MERGES])
dense_and_conv = pytest.mark.parametrize("kernel", [None, 3], ids=["dense", "conv"])


TYPICAL = ("lstm", "rhn", "lru", "gla")
"""Cells of four kinds: with gates, with all layers inside, linear, with a matrix as state. They have every readout and merge."""


def each_cell_with(
    names: str, all_of: Iterable[tuple[str | None, ...]], some: Container[tuple[str | None, ...]]
) -> pytest.MarkDecorator:
    """Parametrize a test with every cell and `some` of the values of what acts on outputs, whatever the cell; TYPICAL ones with all."""
    return pytest.mark.parametrize(
        names, [(cell, *values) for cell, values in product(CELLS, all_of) if cell in TYPICAL or values in some]
    )


each_cell_with_a_readout = each_cell_with("cell, readout", product(READOUTS), [("every",)])


def shape(kernel: int | None) -> tuple[int, ...]:
    """Return the shape of a time step of a small network: numbers, or small images."""
    return (2,) if kernel is None else (2, 3, 4)


def channels(cell: str, layers: int, units: int, inputs: int = 0) -> list[int]:
    """Return the number of channels of each state of one layer, the output first."""
    return [units] * layers if cell == "gf-rnn" else reference.state_channels(cell, units, inputs)


def batch(net: Network, size: int = 3, steps: int = 6) -> Tensor:
    return normal(size, steps, *net.interface.input)


def merged(merge: str | None, forward: Tensor, backward: Tensor | None = None) -> Tensor:
    """Return the outputs of two directions, (batch, time, units, ...), merged."""
    if merge is None or backward is None:
        return forward
    match merge:
        case "sum":
            return forward + backward
        case "concat":
            return torch.cat([forward, backward], 2)
        case "mul":
            return forward * backward
        case _:
            return 0.5 * forward + 0.5 * backward
