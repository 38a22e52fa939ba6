"""Drawing the results of analyses: greyscale-safe, axes and units named, the setting below. Needs the extra `plots`."""

import hashlib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..utils.figures import STYLE, drawable, save
from .base import Array, Axis, Result, Tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES, COLOURS = ("-", "--", ":", "-."), ("#000000", "#d55e00", "#0072b2", "#777777", "#009e73")
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i % len(LINES)]} for i in range(len(LINES) * len(COLOURS))
)
"""No two alike, neighbours in different styles, so that lines are told apart in grey."""
MAP = "cividis"
"""Its lightness rises evenly, so that it reads the same in grey."""

Shown = Sequence[tuple[str, Result]]
"""What is drawn side by side: a heading and a result of one analysis for each."""


def draw(shown: Shown, how: str, path: Path) -> None:
    """Draw results side by side to `path`, whose ending decides the format; `how`: "maps", "curves" or "histograms".

    An SVG or PNG carries `digest(shown)`, which tells a stale one. Raises RequestError for a format that matplotlib has
    not, and MissingExtraError.
    """
    drawable(path)
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = HOW[how](shown)
        figure.supxlabel(_caption(shown, figure.get_figwidth()), fontsize=6.5, color="0.3")
        save(figure, path, digest(shown), dpi=130)


def digest(shown: Shown) -> str:
    """Sixteen hexadecimal digits that change with what a picture of these shows."""
    text = "\n".join(f"{title}: {result.digest_text()}" for title, result in shown)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _caption(shown: Shown, width: float) -> str:
    """The setting: what all have in common once, what differs is in the headings."""
    settings = [dict(result.setting) for _, result in shown]
    common = {k: v for k, v in settings[0].items() if all(s.get(k) == v for s in settings)}
    text = "; ".join(f"{key}: {value}" for key, value in common.items())
    return textwrap.fill(text, int(19 * width))


def _figure(columns: int, lines: int, each: tuple[float, float]) -> "Figure":
    from matplotlib.figure import Figure

    size = (max(3.6, 0.7 + each[0] * columns), 0.7 + each[1] * lines)
    return Figure(figsize=size, layout="constrained")


def maps(shown: Shown) -> "Figure":
    """A heat map of the last two axes, the first of them upwards; a column a result, a row for everything else, all of
    one row on one scale. Of a single result two maps stand side by side."""
    from matplotlib.colors import LogNorm, Normalize

    columns = [
        [(title, f"{name}, {where}" if where else name, part) for name, array in result.arrays.items()
         if len(array.axes) >= 2 for where, part in array.parts(2)]
        for title, result in shown
    ]  # fmt: skip
    rows = list(zip(*columns, strict=True))
    if len(shown) == 1:
        rows = [tuple(column[i : i + 2]) for column in columns for i in range(0, len(column), 2)]
    tall = max(0.75, 0.12 * len(rows[0][0][2].axes[0].ticks))
    figure = _figure(len(rows[0]), len(rows), (2.1, 0.75 + tall))
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    for line, row in enumerate(rows):
        values = np.concatenate([part.values.ravel() for _, _, part in row])
        log = row[0][2].log
        finite = values[np.isfinite(values) & ((values > 0) | (not log))]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        norm = LogNorm(low, max(high, low * 1.0001)) if log and low > 0 else Normalize(low, high)
        for column, (title, name, part) in enumerate(row):
            axes = grid[line][column]
            picture = axes.pcolormesh(part.values, cmap=MAP, norm=norm, rasterized=True)
            for axis, which in zip(part.axes, ("y", "x"), strict=True):
                at = _few(len(axis.ticks))
                getattr(axes, f"set_{which}ticks")([i + 0.5 for i in at], [str(axis.ticks[i]) for i in at])
            axes.set(xlabel=part.axes[1].name if line == len(rows) - 1 else "")
            axes.set(ylabel=part.axes[0].name if column == 0 else "")
            axes.set_title(f"{title}\n{name}" if line == 0 and len(shown) > 1 else name)
        bar = figure.colorbar(picture, ax=list(grid[line]), aspect=14, pad=0.01)
        bar.ax.tick_params(labelsize=6)
    return figure


def _few(count: int) -> list[int]:
    """Places of at most seven ticks: the first, then evenly spaced ones, as 1, 3, 5, ... or 1, 5, 10, ..."""
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if count <= 7 * n)
    return (
        list(range(count))
        if every == 1
        else [0, *range(every - 1, count, every)]
        if every > 2
        else list(range(0, count, 2))
    )


def curves(shown: Shown) -> "Figure":
    """A panel for every array and place of its outer axes, lines along the last axis. Results of one line a panel share
    it, a line each; others stand side by side, on one scale."""
    columns = [
        [(f"{name}, {where}" if where else name, part)
         for name, array in _lined(result).items()
         for where, part in _thin(array).parts(2)]
        for _, result in shown
    ]  # fmt: skip
    titles = [title for title, _ in shown]
    if len(shown) > 1 and all(len(part.axes) == 1 for column in columns for _, part in column):
        return _shared(titles, columns)
    lines = max(map(len, columns))
    if len(shown) == 1:  # two side by side
        cells = [(i // 2, i % 2, name, part) for i, (name, part) in enumerate(columns[0])]
        figure, grid = _grid(-(-lines // 2), min(2, lines), False)
    else:
        cells = [
            (line, column, f"{titles[column]}\n{name}" if line == 0 else name, part)
            for column, parts in enumerate(columns) for line, (name, part) in enumerate(parts)
        ]  # fmt: skip
        figure, grid = _grid(lines, len(shown), True)
    used = set()
    kinds = {part.axes[0] for _, _, _, part in cells if len(part.axes) == 2}
    for line, column, name, part in cells:
        _lines(grid[line][column], part, part.axes[0].ticks if len(part.axes) == 2 else [None])
        grid[line][column].set_title(name)
        used.add((line, column))
    for line, row in enumerate(grid):
        for column, axes in enumerate(row):
            if (line, column) not in used:
                axes.remove()
    labelled = [axes for axes in figure.axes if axes.get_legend_handles_labels()[0]]
    if len(kinds) == 1:  # the same lines everywhere
        handles, labels = labelled[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, title=next(iter(kinds)).name, loc="outside right upper", fontsize=6, title_fontsize=6
        )
    else:
        for axes in labelled:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3, fontsize=6)
    return figure


def _lined(result: Result) -> dict[str, Array]:
    """The arrays with a curve; where none has one, those of single points."""
    found = {name: a for name, a in result.arrays.items() if a.axes and a.axes[-1].name != "from"}
    return {name: a for name, a in found.items() if len(a.axes[-1].ticks) > 1} or found


def _thin(array: Array) -> Array:
    """Without a layer axis of one layer."""
    return array.at(layer=1) if any(a.name == "layer" and a.ticks == (1,) for a in array.axes[:-1]) else array


def _grid(lines: int, columns: int, shared: bool) -> tuple["Figure", Any]:
    figure = _figure(columns, lines, (2.3 if columns > 2 else 3.1, 1.8))
    return figure, figure.subplots(lines, columns, squeeze=False, sharey="row" if shared else False)


def _shared(titles: list[str], columns: list[list[tuple[str, Array]]]) -> "Figure":
    figure, grid = _grid(-(-len(columns[0]) // 2), min(2, len(columns[0])), False)
    for place, parts in enumerate(zip(*columns, strict=True)):
        axes = grid[place // 2][place % 2]
        for i, (title, (name, part)) in enumerate(zip(titles, parts, strict=True)):
            one = Array(part.values[None], (Axis("", (title,)), *part.axes), part.unit, part.log)
            _lines(axes, one, [title], start=i)
            axes.set_title(name)
    for axes in list(grid.flat)[len(columns[0]) :]:
        axes.remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=6)
    return figure


def _lines(axes: "Axes", part: Array, labels: Sequence[Tick | None], start: int = 0) -> None:
    along = part.axes[-1]
    numeric = all(isinstance(t, int | float) for t in along.ticks)
    places: list[Any] = list(along.ticks) if numeric else list(range(len(along.ticks)))
    rows = part.values if len(part.axes) == 2 else part.values[None]
    for i, (row, label) in enumerate(zip(rows, labels, strict=True), start=start):
        marker: dict[str, Any] = {"marker": "o", "markersize": 3} if len(places) <= 8 else {}
        axes.plot(places, row, label=None if label is None else str(label), **LOOKS[i % len(LOOKS)], **marker)
    if not numeric:
        axes.set_xticks(places, [str(t) for t in along.ticks])
    if part.log and (part.values[np.isfinite(part.values)] > 0).all():
        axes.set_yscale("log")
    axes.set(xlabel=along.name, ylabel=part.unit)
    axes.grid(axis="y", color="0.9", linewidth=0.6)


def histograms(shown: Shown) -> "Figure":
    """Bars along the last axis, whose ticks are the left edges of equal bins; a column a result, a row a place."""
    columns = [
        [(where or name, part) for name, array in result.arrays.items() if array.axes and array.axes[-1].name == "from"
         for where, part in array.parts(1)]
        for _, result in shown
    ]  # fmt: skip
    lines = max(map(len, columns))
    figure = _figure(len(shown), lines, (2.6, 1.35))
    grid = figure.subplots(lines, len(shown), squeeze=False)
    for column, ((title, _), parts) in enumerate(zip(shown, columns, strict=True)):
        for line, (name, part) in enumerate(parts):
            axes, edges = grid[line][column], np.array(part.axes[-1].ticks, dtype=float)
            width = edges[1] - edges[0]
            axes.bar(edges, part.values, width=width, align="edge", color="0.45", edgecolor="white", linewidth=0.4)
            axes.set_title(f"{title}\n{name}" if line == 0 else name)
            axes.set_ylabel("share")
            if line == len(parts) - 1:
                axes.set_xlabel(part.unit or "value")
    return figure


HOW = {"maps": maps, "curves": curves, "histograms": histograms}
