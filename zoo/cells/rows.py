"""What a row of CELLS says of a cell. Needs no torch."""

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import RegistryError
from ..utils.own import import_own

if TYPE_CHECKING:
    from .base import Cell


@dataclass(frozen=True)
class Number:
    """An option that is a number from `low` to `high`."""

    low: float = -1e30
    high: float = 1e30
    whole: bool = False
    divides_units: bool = False
    """Whether the number of units must be a multiple of it."""

    def allows(self, value: object) -> bool:
        """Return whether `value` is such a number. A bool is not."""
        is_number = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]  # False for NaN

    def __str__(self) -> str:
        return f"a {'whole' if self.whole else 'finite'} number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class CellRow:
    """Where a cell's class lives and what a specification may say about it."""

    path: str
    """`module.Class` within zoo.cells, for a row of FEEDFORWARD within zoo.networks; `package.module:Class` elsewhere."""
    title: str
    paper: str
    """Its source, a key of the registry's papers."""
    options: dict[str, tuple[str, ...] | Number] = field(default_factory=dict)
    """Allowed options: the allowed words, or the allowed numbers."""
    init: dict[str, str] = field(default_factory=dict)
    """Initialisers that the cell needs in place of the general defaults."""
    recurrent_matrix: bool = True
    """Whether the cell has a recurrent matrix that a specification's initialiser fills."""
    memory_gates: bool = True
    """Whether a gated cell has biases that a specification's gate bias sets, those of `Cell.memory_gates`."""
    layers_inside: bool = False
    """Whether a specification's layers are the depth of one cell, rather than a stack of cells."""
    without: dict[str, str] = field(default_factory=dict)
    """Fields of a specification that the cell cannot have, each with the reason."""
    properties: tuple[str, ...] = ()
    """What the cell has in common with cells of other families, words of zoo.cells.properties.PROPERTIES."""

    @property
    def gate_bias(self) -> bool:
        """Whether a specification's gate bias changes anything."""
        return self.memory_gates and "gated" in self.properties


def own_class(row: CellRow) -> "type[Cell]":
    """Import and return the class of a row whose path is `module:Class`.

    Raises RegistryError if it cannot be imported, is not a subclass of Cell, or does not take an option of the row.
    """
    from .base import Cell

    cls: type[Cell] = import_own(row.path, "cell", "path", Cell, RegistryError)
    taken = inspect.signature(cls).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in taken.values())
    if not takes_all and (unknown := row.options.keys() - taken.keys()):
        raise RegistryError(f"The cell {row.path} has no argument {min(unknown)!r}, which is among its options.")
    return cls
