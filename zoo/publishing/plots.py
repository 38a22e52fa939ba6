"""Plots reported and measured figures, the rows of zoo.publishing.comparison. Needs matplotlib (the extra `plots`)."""

import textwrap
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import registry
from ..cells.colours import cell_colour
from ..errors import RequestError
from ..utils.plotting import STYLE, add_caption, picture_format, save
from .comparison import Row, digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPh*"  # they tell curves apart in grey
SOURCES: dict[str, dict[str, Any]] = {
    "reported": {"linestyle": "--", "markerfacecolor": "white"},
    "measured": {"linestyle": "-"},
}
BARS: dict[str, dict[str, Any]] = {
    "reported": {"facecolor": "white", "edgecolor": "0.3", "linestyle": "--"},
    "measured": {"facecolor": "0.3"},
}
"""As SOURCES, for the legend of a picture of bars."""
VARIANT = ":"
"""The line through measured figures of a variant of a cell, such as lstm.bias-zero, which has the cell's colour."""
COLLAPSED: dict[str, Any] = {"marker": "x", "color": "black", "markersize": 7, "linestyle": ""}
PERCENT_TICKS = (0, 50, 70, 80, 90, 95, 98, 100)
MAX_BARS = 4
"""A plot that has curves also shows its panels of bars if they are at most this many."""
MAX_TRAININGS = 3
"""A caption describes how the weights were trained if it has to tell at most this many ways apart."""


def against_depth(rows: Sequence[Row], path: Path) -> None:
    """Plot the metric against depth, and write the plot to `path`, whose suffix decides the format.

    Each table, task and width has a panel with a curve for each cell: dashed with hollow markers for reported figures,
    solid with full markers for measured ones, dotted for those of a cell's variants. Models of a single depth are drawn as
    bars, in panels of their own (see MAX_BARS). Raises RequestError if `rows` is empty or matplotlib lacks the format, and
    MissingExtraError without matplotlib.
    """
    picture_format(path)
    import matplotlib

    if not rows:
        raise RequestError(
            "There is nothing to plot: no matching model has a reported or measured figure. Choose other models, for example "
            "by another task, cell or paper."
        )
    with matplotlib.rc_context(STYLE):
        figure = _draw(rows)
        save(figure, path, digest(rows))


def _draw(rows: Sequence[Row]) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    panels = _panels(rows)
    looks: dict[str, dict[str, Any]] = {
        kind: {"color": cell_colour(kind) or "0.6", "marker": MARKERS[i % len(MARKERS)]}
        for i, kind in enumerate(sorted({r.kind for p in panels for r in p}))
    }
    columns = min(2, len(panels))
    lines = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    heights = [max(2.8 if _has_curve(p) else 0.9 + 0.34 * len(p) for p in line) for line in lines]
    figure = Figure(figsize=(2.4 + 3.9 * columns, 0.9 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights).ravel()
    several = len({(p[0].paper, p[0].table) for p in panels}) > 1
    for axis, panel in zip(axes, panels, strict=False):
        (_curves if _has_curve(panel) else _bars)(axis, panel, looks)
        if several:
            axis.set_title(f"{_source(panel[0])}\n{axis.get_title()}")
    for axis in axes[len(panels) :]:
        axis.remove()
    line = figure.axes[0].plot
    in_curves = {r.kind for p in panels if _has_curve(p) for r in p}  # bars have their cells beside them
    handles: list[Any] = [
        line([], [], linestyle=VARIANT if "." in kind else "", label=kind, **look)[0]
        for kind, look in looks.items()
        if kind in in_curves
    ]
    sources = {
        name: style for name, style in SOURCES.items() if any(getattr(r, name) is not None for p in panels for r in p)
    }
    if len(sources) > 1 and in_curves:
        handles += [line([], [], color="0.3", marker="o", label=name, **style)[0] for name, style in sources.items()]
    elif len(sources) > 1:
        handles += [Patch(label=name, **BARS[name]) for name in sources]
    if any(r.collapsed or r.diverged_runs or r.lost for p in panels for r in p):
        handles += line([], [], label="runs that collapsed or diverged", **COLLAPSED)
    figure.legend(handles=handles, loc="outside right upper")
    scaled = any(_has_curve(p) and p[0].measure.unit == " %" for p in panels)
    note = " Vertical scales of curves are logarithmic in the error." if scaled else ""
    add_caption(figure, _caption([r for p in panels for r in p]) + note)
    return figure


def _panels(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows of each panel: first the panels of curves, one for each table, task and width; then those of bars."""

    def table_key(r: Row) -> tuple[str, str, str]:
        return r.paper or "", r.table or "", r.task

    def width_key(r: Row) -> tuple[str, str, str, int]:
        return *table_key(r), r.units

    widths = [list(group) for _, group in groupby(sorted(rows, key=width_key), key=width_key)]
    curves = [panel for panel in widths if _has_curve(panel)]
    others = [r for panel in widths if panel not in curves for r in panel]
    bars = [list(group) for _, group in groupby(sorted(others, key=table_key), key=table_key)]
    return [*curves, *(bars if not curves or len(bars) <= MAX_BARS else ())]


def _has_curve(rows: Sequence[Row]) -> bool:
    """Return True if all rows have one width (number of units) and some cell has two or more depths, which makes a curve."""
    return len({r.units for r in rows}) == 1 and len({(r.kind, r.layers) for r in rows}) > len({r.kind for r in rows})


def _curves(axis: "Axes", rows: Sequence[Row], looks: dict[str, dict[str, Any]]) -> None:
    """Draw curves of the reported and of the measured figures. Runs of which some collapsed are points beside the curve."""
    for kind, look in looks.items():
        of_kind = [r for r in rows if r.kind == kind]
        for field, style in SOURCES.items():
            points = sorted(
                (r.layers, r.measure.scale * y)
                for r in of_kind
                if (y := getattr(r, field)) is not None and not (r.mixed and field == "measured")
            )
            if points:
                line = {"linestyle": VARIANT} if "." in kind and field == "measured" else {}
                axis.plot(*zip(*points, strict=True), **(look | style | line))
        for r in of_kind:
            if r.mixed:
                figures = _figures(r)
                axis.plot([r.layers] * len(figures), figures, linestyle="", **look)
                axis.plot([r.layers] * r.collapsed, figures[: r.collapsed], **COLLAPSED)
                continue
            if r.lost or r.diverged_runs:  # on the axis, at the end for the worst figures
                worst = 0.0 if r.measure.higher_is_better else 1.0
                axis.plot(
                    r.layers,
                    worst,
                    transform=axis.get_xaxis_transform(),
                    clip_on=False,
                    **(COLLAPSED | {"color": look["color"]}),
                )
            if r.measured is not None:
                place = r.layers, r.measure.scale * r.measured
                if error := _error(r):
                    axis.errorbar(*place, error, color=look["color"], capsize=2)
                if r.collapsed:
                    axis.plot(*place, **COLLAPSED)
    axis.set(
        title=_title(f"{rows[0].task_title}, {rows[0].units} units"), xlabel="depth, layers", ylabel=_metric(rows[0])
    )
    depths = sorted({r.layers for r in rows})
    axis.set_xscale("log")  # on a linear scale 1, 2 and 4 layers almost coincide
    axis.set_xticks(depths, [str(depth) for depth in depths])
    axis.set_xticks([], minor=True)
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    if rows[0].measure.unit == " %":
        _set_percent_scale(axis)


def _set_percent_scale(axis: "Axes") -> None:
    """Give 90 to 100 % half of the height, for that is where most figures are: the scale is the logarithm of the error."""
    top = next(tick for tick in PERCENT_TICKS if tick >= min(axis.dataLim.y1, 100))
    axis.set_yscale(
        "function", functions=(lambda y: -np.log10(np.maximum(102.0 - y, 1e-9)), lambda u: 102.0 - 10.0**-u)
    )
    axis.set_yticks(PERCENT_TICKS, [str(tick) for tick in PERCENT_TICKS])
    axis.set_ylim(-10, top + 0.03 * (102 - top))  # the marker of the best figure is whole


def _bars(axis: "Axes", rows: Sequence[Row], looks: dict[str, dict[str, Any]]) -> None:
    """Draw a pair of bars for each model: the reported figure hollow, the measured one full, or points if some runs collapsed."""
    pairs = any(r.reported is not None for r in rows) and any(r.measured is not None for r in rows)
    height, shift = (0.36, 0.2) if pairs else (0.6, 0.0)
    for place, r in enumerate(rows):
        colour, scale = looks[r.kind]["color"], r.measure.scale
        if r.reported is not None:
            axis.barh(place - shift, scale * r.reported, height, facecolor="white", edgecolor=colour, linestyle="--")
        if r.mixed:
            figures = _figures(r)
            axis.plot(figures, [place + shift] * len(figures), linestyle="", **looks[r.kind])
            axis.plot(figures[: r.collapsed], [place + shift] * r.collapsed, **COLLAPSED)
        elif r.measured is not None:
            axis.barh(place + shift, scale * r.measured, height, color=colour, xerr=_error(r))
        elif r.lost:
            axis.plot(
                0.0,
                place + shift,
                transform=axis.get_yaxis_transform(),
                clip_on=False,
                **(COLLAPSED | {"color": colour}),
            )
    axis.set_yticks(range(len(rows)), [f"{r.kind} {r.layers}x{r.units}" for r in rows])
    axis.set(title=_title(rows[0].task_title), xlabel=_metric(rows[0]), ylim=(len(rows) - 0.5, -0.5))
    axis.grid(axis="x", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    if rows[0].measure.unit == " %":
        axis.set_xlim(0, 104)


def _figures(row: Row) -> list[float]:
    """Return the figures of a row's runs, the worst first."""
    return sorted((row.measure.scale * value for value in row.values), reverse=not row.measure.higher_is_better)


def _error(row: Row) -> list[list[float]] | None:
    """Return how far the lowest run lies below the mean and the highest above it, or None if there is one run."""
    if row.span is None or row.measured is None:
        return None
    low, high = row.span
    return [[row.measure.scale * (row.measured - low)], [row.measure.scale * (high - row.measured)]]


def _title(text: str) -> str:
    return textwrap.fill(text, 46)  # as wide as a panel


def _metric(row: Row) -> str:
    direction = "" if row.measure.higher_is_better else " (lower is better)"
    return f"{row.measure.axis}{direction}"


def _caption(rows: Sequence[Row]) -> str:
    """Return the caption: tables, training of the weights, number of examples, and datasets used in place of a paper's."""
    tables = dict.fromkeys(_source(r) for r in rows if r.paper)
    done = [r for r in rows if r.measured is not None]
    seeds: dict[str, set[int]] = {}
    for r in done:
        if r.training_text:
            seeds.setdefault(r.training_text, set()).update(r.seeds)
    trainings = [f"{text}, seed {', '.join(map(str, sorted(each)))}" for text, each in seeds.items()]
    if len(trainings) > MAX_TRAININGS:
        recipes = sorted({r.recipe for r in done if r.recipe})
        trainings = [
            f"{'recipes' if len(recipes) > 1 else 'recipe'} {', '.join(recipes)}",
            "`rnnzoo compare` prints epochs and seeds",
        ]
    sizes: dict[str, set[int]] = {}
    for r in done:
        sizes.setdefault(r.split or "", set()).add(r.n or 0)
    tests = [f"{' or '.join(f'{n:,}' for n in sorted(each))} {split} examples" for split, each in sizes.items()]
    caption = f"Reported: {', '.join(tables)}. " if tables else ""
    if done:
        caption += f"Measured: {_runs_text(done)}, on {', '.join(tests)} ({'; '.join(trainings)})."
    else:
        caption += "None of these models is measured."
    if stand_ins := dict.fromkeys(f"{r.task} on a stand-in for {r.stand_in}" for r in done if r.stand_in):
        caption += f" Measured on data that differ from the paper's: {', '.join(stand_ins)}."
    return caption


def _runs_text(rows: Sequence[Row]) -> str:
    runs = sorted({r.runs for r in rows})
    if runs == [1]:
        return "one run each"
    span = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    points = "; points without a line: runs of which some collapsed" if any(r.mixed for r in rows) else ""
    return f"mean of {span} runs (error bars: lowest to highest{points})"


def _source(row: Row) -> str:
    return f"{row.table} of {registry.load_registry().papers[row.paper].citation}" if row.paper else "in no paper"
