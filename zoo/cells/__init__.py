"""CELLS: every cell rnnzoo knows, one row each. The table itself needs no torch, so listing models stays instant."""

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import UnknownNameError

if TYPE_CHECKING:
    from .base import Cell


@dataclass(frozen=True)
class CellRow:
    """Where a cell's class lives and what a specification may say about it."""

    path: str
    """`module.Class` within zoo.cells."""
    title: str
    paper: str
    """Where it comes from: a key of the registry's papers."""
    options: dict[str, object] = field(default_factory=dict)
    """Allowed options: the tuple of allowed words, or the type of an allowed number."""
    init: dict[str, str] = field(default_factory=dict)
    """Initialisers that belong to the cell's definition, where they differ from the general defaults."""
    layers_inside: bool = False
    """The layers of a specification are the depth of one cell, not a stack of cells."""


_SMALL = {"input": "normal-0.001", "recurrent": "normal-0.001"}  # N(0, 1e-3) of the RIN paper, section 3.1

CELLS: dict[str, CellRow] = {
    "rnn": CellRow("elman.RNN", "simple recurrent network", "elman", {"activation": ("tanh", "relu")}),
    "lstm": CellRow("lstm.LSTM", "long short-term memory", "lstm"),
    "lstm-f": CellRow("lstm.ForgetLSTM", "LSTM with only the forget gate", "lstm-f"),
    "lstm-peephole": CellRow(
        "lstm.PeepholeLSTM", "LSTM with peepholes", "lstm-peephole", {"peephole": ("full", "diagonal")}
    ),
    "lstm-coupled": CellRow("lstm.CoupledLSTM", "LSTM with coupled forget and input gates", "lstm-coupled"),
    "gru": CellRow("gru.GRU", "gated recurrent unit", "gru", {"reset": ("before", "after")}),
    "rhn": CellRow("rhn.RHN", "recurrent highway network", "rhn", layers_inside=True),
    "star": CellRow("star.STAR", "stackable recurrent cell", "star", {"shift": float}),
    "irnn": CellRow("elman.IRNN", "identity-initialised ReLU RNN", "irnn", init={**_SMALL, "recurrent": "identity"}),
    "rin": CellRow("rin.RIN", "recurrent identity network", "rin", init=_SMALL),
    "rin-dt": CellRow("rin.RINDT", "recurrent identity network with deep transitions", "rin", init=_SMALL),
}


def cell_row(name: str) -> CellRow:
    """The row of `name`; raises UnknownNameError with near matches."""
    if name not in CELLS:
        raise UnknownNameError("cell", name, CELLS)
    return CELLS[name]


def cell_class(name: str) -> "type[Cell]":
    """The class of the cell `name`, imported when asked for."""
    module, _, attribute = cell_row(name).path.rpartition(".")
    cls: type[Cell] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return cls
