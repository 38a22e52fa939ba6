"""Cells of a zoo's own, which registry.yaml declares beside those of the package."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ...cells.properties import PROPERTIES
from ...cells.rows import CellRow, Number
from .base import Finite, Key, Some, Spec, Text
from .networks import WeightInit

CellName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,79}$")]
OptionName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,79}$")]


class NumberOption(Spec):
    """The numbers that an option of a cell may be: from `low` to `high`, whole or not."""

    low: Finite = Number.low
    high: Finite = Number.high
    whole: bool = False
    divides_units: bool = False
    """Whether the number of units must be a multiple of it."""


class OwnCell(Spec):
    """A cell of the zoo's own: where its class is, and what a specification may say about it (see CellRow)."""

    path: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
    """`module:Class`, a subclass of zoo.cells.base.Cell; the module may be in the zoo's folder."""
    title: Text
    paper: Key
    options: dict[OptionName, Some[Text] | NumberOption] = {}
    """Arguments of the class beside the projections: the allowed words, or the allowed numbers."""
    init: dict[Annotated[str, Field(pattern="^(input|recurrent)$")], WeightInit] = {}
    properties: Annotated[tuple[str, ...], Field(strict=False)] = ()
    recurrent_matrix: bool = True
    without: dict[Annotated[str, Field(pattern="^(kernel|layer_norm|zoneout|recurrent_dropout)$")], Text] = {}
    """Fields of a specification that the cell cannot have, each with the reason."""

    def _problems(self) -> Iterator[str]:
        if unknown := [name for name in self.properties if name not in PROPERTIES or name == "convolutional"]:
            known = ", ".join(name for name in PROPERTIES if name != "convolutional")
            yield f"{', '.join(unknown)}: not among the properties that a cell may list ({known})"

    @property
    def row(self) -> CellRow:
        """The row of the cell for CELLS."""
        options = {
            name: allowed if isinstance(allowed, tuple) else Number(**allowed.model_dump())
            for name, allowed in self.options.items()
        }
        return CellRow(
            self.path, self.title, self.paper, options, self.init,
            recurrent_matrix=self.recurrent_matrix, without=self.without, properties=self.properties,
        )  # fmt: skip
