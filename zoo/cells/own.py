"""Cells of a zoo's own, which are rows of CELLS as long as its registry is in use. Needs no torch."""

from collections.abc import Mapping

from . import CELLS, ROWS
from .rows import CellRow

_declared: dict[str, CellRow] = {}


def declare(rows: Mapping[str, CellRow]) -> None:
    """Make `rows`, by name, those rows of CELLS that a registry declares, in the place of those of the registry before."""
    for name, row in _declared.items():
        if CELLS.get(name) is row:
            del CELLS[name]
    _declared.clear()
    _declared.update(rows)
    CELLS.update(rows)


def is_taken(name: str) -> bool:
    """Return whether a cell of the package, or one that a program added to CELLS, has this name."""
    return name in ROWS and name not in _declared
