"""The tables of cells: their properties, and the facts that docs/cells.md prints."""

import pytest

from zoo.cells import CELLS, ROWS, cell_class
from zoo.cells.linear import LinearRecurrence
from zoo.cells.matrix import MatrixRecurrence
from zoo.cells.projections import Diagonal, ProjectionFactory
from zoo.cells.properties import PROPERTIES, cells_with, properties_of
from zoo.errors import UnknownNameError


def test_properties_are_those_of_the_classes() -> None:
    assert set().union(*(cells for _, cells in PROPERTIES.values())) <= CELLS.keys()
    linear = {cell for cell in CELLS if issubclass(cell_class(cell), LinearRecurrence | MatrixRecurrence)}
    assert cells_with("linear") == linear
    assert cells_with("gated") >= {cell for cell in CELLS if cell_class(cell).memory_gates}
    assert cells_with() == ROWS.keys()
    assert all(cell in cells_with(*properties_of(cell)) for cell in CELLS)


@pytest.mark.parametrize("cell", sorted(PROPERTIES["independent"][1]))
def test_independent_cells_have_no_full_matrix_of_the_state(cell: str) -> None:
    made = cell_class(cell)(ProjectionFactory(4, None, False))
    projections = {name: m for name, m in made.named_modules() if hasattr(m, "product")}
    readers = {"output", "readout", "even", "odd"} | {"real", "imaginary"}
    assert all(
        isinstance(m, Diagonal) or name in readers or cell in ("hgrn", "lru", "s4d") for name, m in projections.items()
    )


def test_an_unknown_property_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"No property is called 'fast'. There are: continuous-time, "):
        cells_with("fast")
