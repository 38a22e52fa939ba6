"""Charts, with tables, of the stored results of zoo.diagnostics: lattices, curves and histograms."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ...diagnostics.base import Array, Result
from ...diagnostics.drawing import TITLES
from ...utils.text import counted
from . import charts
from .charts import Series
from .facts import colour

LOSSES = {"last": TITLES["loss last"], "all": TITLES["loss all"]}
MOST_ROWS = 60
"""Most rows of a table of curves, besides the last row. The JSON file of a study has every number."""
RAMP = ((0x3B, 0x6F, 0xB6), (0xB9, 0x3F, 0x2B))
"""Colours of the lowest layer's curve and of the highest layer's."""


@dataclass(frozen=True)
class Picture:
    """A chart with its title, legend and numbers."""

    title: str
    chart: Markup
    legend: Markup
    numbers: Markup


def lattice(array: Array, name: str) -> list[Picture]:
    """Return a heat map for each loss: gradient norms relative to the norm of the last layer at the last step.

    array: norms, (loss, layer, step). name: text before each title; "" for none.
    """
    pictures = []
    for loss in array.axes[0].ticks if array.axes[0].name == "loss" else ():
        values = array.at(loss=loss).values
        pictures.append(
            _map(
                values, f"{name}: {LOSSES[str(loss)]}" if name else LOSSES[str(loss)], array.unit, float(values[-1, -1])
            )
        )
    return pictures


def _map(values: np.ndarray, title: str, unit: str, reference: float) -> Picture:
    low, high = (float(v) for v in (np.nanmin(values), np.nanmax(values)))
    summary = f"{title}. {unit}, layers by steps, {low:.3g} to {high:.3g}; {reference:.3g} at the last layer and step."
    chart = charts.heat(values, reference, summary=summary)
    header = ("layer", *(f"step {i + 1}" for i in range(values.shape[1])))
    rows = [(len(values) - i, *(f"{v:.3g}" for v in line)) for i, line in enumerate(values[::-1])]
    return Picture(title, chart, Markup(""), charts.table(header, rows))


def pictures(results: Mapping[str, Result], plot: str, arrays: Sequence[str] | None) -> list[Picture]:
    """Return the charts of a study. results: its results by title.

    plot: the kind of drawing, a key of zoo.diagnostics.drawing.PLOTS. arrays: the names of the arrays to show; None for all.
    """
    names = arrays or [name for name, array in next(iter(results.values())).arrays.items() if array.axes]
    if plot == "maps":
        return [
            picture
            for part, result in results.items()
            for name in names
            for picture in (
                lattice(result.arrays[name], part) if name == "mean" else _spreads(result.arrays[name], part)
            )
        ]
    return [
        picture
        for name in names
        for picture in _curves({k: r.arrays[name] for k, r in results.items() if name in r.arrays}, name)
    ]


def _spreads(array: Array, part: str) -> list[Picture]:
    return [
        _map(array.at(loss=loss).values, f"{part}: {LOSSES[str(loss)]}", array.unit, 1.0)
        for loss in array.axes[0].ticks
    ]


def _curves(arrays: Mapping[str, Array], name: str) -> list[Picture]:
    """Return charts of curves along the last axis of arrays. arrays: by title of a result, its array called `name`.

    If every array has at most two curves, each chart compares the results; otherwise each result has its own chart.
    """
    slices = {part: array.parts(1) for part, array in arrays.items()}
    if max(map(len, slices.values())) <= 2:
        labels = dict.fromkeys(where for parts in slices.values() for where, _ in parts)
        panels = [
            (
                f"{name}{f', {_short(where)}' if _short(where) else ''}",
                [(p, dict(parts)[where], colour(p)) for p, parts in slices.items() if where in dict(parts)],
            )
            for where in labels
        ]
    else:
        panels = [
            (f"{part}: {name}", [(where, array, _ramp(i, len(parts))) for i, (where, array) in enumerate(parts)])
            for part, parts in slices.items()
        ]
    return [_panel(title, rows) for title, rows in panels]


def _panel(title: str, rows: Sequence[tuple[str, Array, str]]) -> Picture:
    """Return a chart of curves. rows: (label, array of one axis, colour) of each; their ticks may differ."""
    axis, unit, log = rows[0][1].axes[-1].name, rows[0][1].unit, rows[0][1].log
    ticks = list(dict.fromkeys(tick for _, array, _ in rows for tick in array.axes[-1].ticks))
    if all(isinstance(tick, int | float) for tick in ticks):
        ticks.sort(key=float)
        place = {tick: float(tick) for tick in ticks}
    else:
        place = {tick: float(i) for i, tick in enumerate(ticks)}
    values = [dict(zip(array.axes[-1].ticks, map(float, array.values), strict=True)) for _, array, _ in rows]
    series = [
        Series(label, [(place[tick], value) for tick, value in curve.items()], shade, marked=len(curve) <= 12)
        for (label, _, shade), curve in zip(rows, values, strict=True)
    ]
    stride = math.ceil(len(ticks) / MOST_ROWS)
    shown = [tick for i, tick in enumerate(ticks) if i % stride == 0 or i == len(ticks) - 1]
    table_rows = [(tick, *(charts.number(curve.get(tick)) for curve in values)) for tick in shown]
    words = "The numbers as a table" + (f": one row in {stride}, and the last" if stride > 1 else "")
    summary = f"{title} against {axis}, {counted(len(series), 'curve')}"
    chart = charts.lines(series, axis, unit or title, log=log, summary=summary)
    legend = charts.legend(series) if len(series) > 1 or series[0].label else Markup("")
    return Picture(title, chart, legend, charts.table((axis, *(s.label for s in series)), table_rows, words))


def _short(where: str) -> str:
    """Return `where`, the title of a slice of an array, without "layer 1" and "matrix 1"."""
    return ", ".join(part for part in where.split(", ") if part not in ("layer 1", "matrix 1"))


def _ramp(place: int, count: int) -> str:
    part = place / max(count - 1, 1)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*RAMP, strict=True))
