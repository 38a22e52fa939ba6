"""The tables of cells: their properties, and the facts that docs/cells.md prints."""

import pytest
from helpers import network, normal, random_state

from zoo.cells import CELLS, ROWS, cell_class
from zoo.cells.linear import LinearRecurrence
from zoo.cells.matrix import MatrixRecurrence
from zoo.cells.properties import PROPERTIES, cells_with, properties_of
from zoo.errors import UnknownNameError


def test_properties_are_those_of_the_classes() -> None:
    assert set().union(*map(cells_with, PROPERTIES)) <= CELLS.keys()
    linear = {cell for cell in CELLS if issubclass(cell_class(cell), LinearRecurrence | MatrixRecurrence)}
    assert cells_with("linear") == linear
    assert cells_with("gated") >= {cell for cell in CELLS if cell_class(cell).memory_gates}
    assert cells_with() == ROWS.keys()
    assert {word for row in ROWS.values() for word in row.properties} == PROPERTIES.keys() - {"convolutional"}
    assert all(cell in cells_with(*properties_of(cell)) for cell in CELLS)


@pytest.mark.parametrize("cell", sorted(cells_with("independent")))
def test_a_unit_of_an_independent_cell_changes_only_what_is_its_own(cell: str) -> None:
    """Each state has one number a unit, or two of a complex unit; the output is one of the states."""
    net, x = network(cell, layers=1), normal(1, 2)
    state = random_state(net, 1)
    expected = net.step(x, state)[1][0]
    for part, s in enumerate(state[0]):
        moved = [t.detach().clone() for t in state[0]]
        moved[part].flatten()[0] += 0.1
        for found, was in zip(net.step(x, (tuple(moved),))[1][0], expected, strict=True):
            assert ((found - was).abs() > 1e-12).sum() <= 2, s.shape


def test_an_unknown_property_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"No property is called 'fast'. There are: continuous-time, "):
        cells_with("fast")
