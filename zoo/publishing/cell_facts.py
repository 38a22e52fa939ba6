"""Facts about every cell, for `rnnzoo show CELL` and docs/cells.md: equations, sizes, scans, papers, models."""

import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from .. import registry
from ..cells import CELLS, cell_class, cell_row
from ..cells.properties import PROPERTIES, cells_with, properties_of
from ..checkpoints import leaderboard
from ..registry.index import Summary
from ..registry.schema import Architecture, Config, Interface, Paper
from ..utils.text import markdown

TERMS = ("n^2", "n d", "n", "d", "1")
"""Terms of the formula for the number of parameters of one layer of n units, which reads d features."""


@dataclass(frozen=True)
class CellFacts:
    """Facts about a cell with the default values of its options."""

    cell: str
    title: str
    equations: str
    """The docstring of the cell's class, which has its equations."""
    inputs: tuple[str, ...]
    states: tuple[str, ...]
    options: dict[str, str]
    """By option: the allowed values and the default, as text."""
    properties: list[str]
    parameters: str
    """Number of parameters of one layer of n units that reads d features, as `parameters` returns it."""
    scan: str
    paper: str
    models: int
    with_weights: list[str]
    standing: list[str]
    """A sentence for each task of the leaderboard: the cell's rank and figures, and the LSTM's figures."""


def facts(cell: str) -> CellFacts:
    """Return the facts of a cell. Raises UnknownNameError if there is no such cell."""
    return _facts(cell, registry.summaries())


def every_cell() -> list[CellFacts]:
    """Return the facts of every cell, by name."""
    summaries = registry.summaries()
    return [_facts(cell, summaries) for cell in sorted(CELLS)]


def _facts(cell: str, summaries: Mapping[str, Summary]) -> CellFacts:
    row, cls = cell_row(cell), cell_class(cell)
    models = {name: model for name, model in summaries.items() if model.cell == cell}
    paper = registry.load_registry().papers.get(row.paper)
    defaults = {name: p.default for name, p in inspect.signature(cls.__init__).parameters.items()}
    options = {
        name: f"{allowed if not isinstance(allowed, tuple) else ' or '.join(allowed)} (default: {defaults[name]})"
        for name, allowed in row.options.items()
    }
    return CellFacts(
        cell=cell,
        title=row.title,
        equations=inspect.cleandoc(cls.__doc__ or ""),
        inputs=tuple(cls.inputs),
        states=_network(cell, 8, 1)[1],
        options=options,
        properties=properties_of(cell),
        parameters=parameters(cell),
        scan=scan(cell),
        paper=_source(paper) if paper else row.paper,
        models=len(models),
        with_weights=sorted(name for name, model in models.items() if model.pretrained),
        standing=leaderboard.standing(cell),
    )


def _source(paper: Paper) -> str:
    return ", ".join(part for part in (paper.citation, paper.title, paper.link) if part)


def _network(cell: str, units: int, features: int) -> tuple[int, tuple[str, ...]]:
    """Return (number of parameters, names of the states) of one layer of a cell, without allocating it."""
    from ..networks.base import meta_network

    architecture = Architecture(cell=cell, layers=1, units=units)
    interface = Interface(input=(features,), steps=1, outputs=1, readout="last")
    (layer,) = meta_network(Config(name="cell", architecture=architecture, interface=interface)).layers
    return sum(p.numel() for p in layer.parameters()), layer.forward_direction.cell.states


@cache
def parameters(cell: str) -> str:
    """Return the number of parameters of a layer as a formula of n units and d features, such as `4 n^2 + 4 n d + 8 n`.

    The formula is fitted to five sizes and checked on a sixth. If the check fails, return the value for n = 128 and d = 1.
    """
    sizes = [(8, 1), (8, 3), (16, 1), (16, 2), (24, 2), (64, 5)]
    counts = [_network(cell, n, d)[0] for n, d in sizes]
    rows = [[n * n, n * d, n, d, 1] for n, d in sizes]
    factors = [Fraction(v).limit_denominator(1000) for v in np.linalg.solve(rows[:5], counts[:5])]
    if any(sum(f * v for f, v in zip(factors, r, strict=True)) != c for r, c in zip(rows, counts, strict=True)):
        return f"{_network(cell, 128, 1)[0]:,} for n = 128, d = 1"
    terms = [_term(factor, name) for factor, name in zip(factors, TERMS, strict=True) if factor]
    return " + ".join(terms).replace("+ -", "- ")


def _term(factor: Fraction, name: str) -> str:
    return str(factor) if name == "1" else name if factor == 1 else f"{factor} {name}"


@cache
def scan(cell: str) -> str:
    """Return the names of the scans that can run a dense layer of a cell in float32, fastest first, as text.

    A scan is a method of running a layer over a whole sequence. "fused" runs the whole cell in a kernel, "linear" its
    recurrence alone (kernels/diagonal.py), each on a CPU and on a GPU; "plain", step by step in torch, runs every cell.
    """
    from ..cells.linear import LinearRecurrence
    from ..cells.matrix import MatrixRecurrence
    from ..networks.kernels import plans

    cls = cell_class(cell)
    kinds = (["fused"] if cls in plans.PLANS else []) + (
        ["linear"] if issubclass(cls, LinearRecurrence | MatrixRecurrence) else []
    )
    return ", ".join([*kinds, "plain"])


def data(cell: str) -> dict[str, Any]:
    """Return the facts of a cell as JSON data."""
    return asdict(facts(cell))


def text(cell: str) -> str:
    """Return the text that `rnnzoo show` prints about a cell."""
    known = facts(cell)
    rows = [
        ("states", ", ".join(known.states)), ("input projections", ", ".join(known.inputs)),
        *((f"option {name}", value) for name, value in known.options.items()),
        ("properties", ", ".join(known.properties) or "-"), ("parameters", known.parameters), ("scan", known.scan),
        ("paper", known.paper), ("models", str(known.models)), ("with weights", ", ".join(known.with_weights) or "-"),
        *(("measured", sentence) for sentence in known.standing),
    ]  # fmt: skip
    width = max(len(name) for name, _ in rows)
    table = "\n".join(f"{name:<{width}}  {value}" for name, value in rows)
    return f"{known.cell}: {known.title}\n\n{known.equations}\n\n{table}"


def table() -> str:
    """Return the Markdown table of all cells."""
    header = ("cell", "what it is", "properties", "parameters of a layer", "scan", "models", "with weights")
    rows = [
        (
            f"`{f.cell}`", f.title, ", ".join(p for p in f.properties if p != "convolutional") or "-", f.parameters, f.scan, str(f.models),
            str(len(f.with_weights)),
        )
        for f in every_cell()
    ]  # fmt: skip
    return markdown(header, rows)


def meanings() -> str:
    """Return a Markdown table of the cells' properties: name, meaning, number of cells."""
    rows = [(f"`{name}`", meaning, str(len(cells_with(name)))) for name, meaning in PROPERTIES.items()]
    return markdown(("property", "meaning", "cells"), rows)
