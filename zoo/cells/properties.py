"""PROPERTIES: what cells have in common across families, to choose among them. Needs no torch."""

from ..utils.arguments import check_name
from . import CELLS, ROWS

MEANINGS = {
    "gated": "sigmoids of the input or the state decide what is kept or written",
    "linear": "the new state is a linear function of the old one, so all steps can be computed at once",
    "orthogonal": "the recurrent matrix preserves norms, exactly or nearly",
    "continuous-time": "a step is one of a differential equation",
    "time-gaps": "a step may take the time since the step before, `dt`",
    "independent": "a unit sees no other unit's past",
    "convolutional": "the recurrent projection may be a convolution",
}
"""By property: what it means. All but "convolutional" are listed in a cell's row in CELLS."""


def _cells(name: str) -> frozenset[str]:
    if name == "convolutional":
        return frozenset(cell for cell, row in CELLS.items() if "kernel" not in row.without)
    return frozenset(cell for cell, row in CELLS.items() if name in row.properties)


PROPERTIES: dict[str, tuple[str, frozenset[str]]] = {name: (text, _cells(name)) for name, text in MEANINGS.items()}
"""By property: what it means, and the cells that have it."""


def cells_with(*properties: str) -> frozenset[str]:
    """Return the cells, and networks without one, that have all these properties. Raises UnknownNameError for others."""
    for name in properties:
        check_name("property", name, PROPERTIES)
    return frozenset(ROWS).intersection(*(PROPERTIES[name][1] for name in properties))


def properties_of(cell: str) -> list[str]:
    """Return the names of a cell's properties."""
    return [name for name, (_, cells) in PROPERTIES.items() if cell in cells]
