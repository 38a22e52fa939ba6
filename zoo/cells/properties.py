"""PROPERTIES: what cells have in common across families, to choose among them. Needs no torch."""

from ..utils.arguments import check_name
from . import CELLS, ROWS

PROPERTIES = {
    "gated": "functions of the input or the state, such as sigmoids, decide what is kept or written",
    "linear": "the new state is a linear function of the old one, so all steps can be computed at once",
    "orthogonal": "the recurrent matrix preserves norms, exactly or nearly",
    "continuous-time": "a step is one of a differential equation",
    "time-gaps": "a step may take the time since the step before, `dt`",
    "independent": "a unit sees no other unit's past",
    "convolutional": "the cell's projections may be convolutions, so that a layer reads images",
}
"""By property: what it means. All but "convolutional" are listed in a cell's row in CELLS."""


def cells_with(*properties: str) -> frozenset[str]:
    """Return the cells, and networks without one, that have all these properties. Raises UnknownNameError for others."""
    for name in properties:
        check_name("property", name, PROPERTIES)
    return frozenset(cell for cell in ROWS if all(_has(cell, name) for name in properties))


def properties_of(cell: str) -> list[str]:
    """Return the names of a cell's properties."""
    return [name for name in PROPERTIES if _has(cell, name)]


def _has(cell: str, name: str) -> bool:
    if name == "convolutional":
        return cell in CELLS and "kernel" not in ROWS[cell].without
    return name in ROWS[cell].properties
