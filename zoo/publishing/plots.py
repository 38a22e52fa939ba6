"""Plots of the rows of zoo.publishing.comparison. Drawing needs matplotlib (the extra `plots`)."""

import textwrap
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import registry
from ..errors import RequestError
from ..utils.figures import STYLE, add_caption, cell_colour, picture_format, save
from .comparison import Row, digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "osD^vPX*"  # they tell curves apart in grey
SOURCES: dict[str, dict[str, Any]] = {
    "reported": {"linestyle": "--", "markerfacecolor": "white"},
    "measured": {"linestyle": "-"},
}


def against_depth(rows: Sequence[Row], path: Path) -> None:
    """Draw the metric against depth to `path`, whose suffix decides the format.

    There is a panel for each table, task and width, with a curve for each cell: reported figures dashed with hollow
    markers, measured figures solid with full markers. Single points are drawn only if there is no curve. Raises RequestError
    if there are no rows or matplotlib lacks the format, and MissingExtraError without matplotlib.
    """
    picture_format(path)
    import matplotlib
    from matplotlib.figure import Figure

    if not rows:
        raise RequestError("There is nothing to plot: no matching model has a reported or measured figure.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = _draw(rows, Figure)
        save(figure, path, digest(rows))


def _draw(rows: Sequence[Row], new_figure: Callable[..., "Figure"]) -> "Figure":
    def panel_key(r: Row) -> tuple[str, str, str, int]:
        return r.paper or "", r.table or "", r.task, r.units

    panels = [list(group) for _, group in groupby(sorted(rows, key=panel_key), key=panel_key)]
    with_curves = [p for p in panels if len({(r.kind, r.layers) for r in p}) > len({r.kind for r in p})]
    panels = with_curves or panels
    looks: dict[str, dict[str, Any]] = {
        kind: {"color": cell_colour(kind) or "0.6", "marker": MARKERS[i % len(MARKERS)]}
        for i, kind in enumerate(sorted({r.kind for p in panels for r in p}))
    }
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure = new_figure(figsize=(1.2 + 3.2 * columns, 0.9 + 2.3 * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    several = len({(p[0].paper, p[0].table) for p in panels}) > 1
    for axis, panel in zip(axes, panels, strict=False):
        _panel(axis, panel, looks)
        if several:
            axis.set_title(f"{_source(panel[0])}\n{axis.get_title()}")
    for axis in axes[len(panels) :]:
        axis.remove()
    line = figure.axes[0].plot
    handles = [line([], [], linestyle="", label=kind, **look)[0] for kind, look in looks.items()]
    handles += [line([], [], color="0.3", marker="o", label=name, **style)[0] for name, style in SOURCES.items()]
    figure.legend(handles=handles, loc="outside right upper")
    add_caption(figure, _caption([r for p in panels for r in p]))
    return figure


def _panel(axis: "Axes", rows: Sequence[Row], looks: dict[str, dict[str, Any]]) -> None:
    first, depths = rows[0], sorted({r.layers for r in rows})
    for kind, look in looks.items():
        for field, style in SOURCES.items():
            points = sorted(
                (r.layers, r.unit.scale * y) for r in rows if r.kind == kind and (y := getattr(r, field)) is not None
            )
            if points:
                axis.plot(*zip(*points, strict=True), **look, **style)
        for r in rows:
            if r.kind == kind and r.measured is not None and r.std is not None:
                bar = r.unit.scale * r.std
                axis.errorbar(r.layers, r.unit.scale * r.measured, bar, color=look["color"], capsize=2)
    direction = "" if first.unit.higher_is_better else " (lower is better)"
    title = textwrap.fill(f"{first.task_title}, {first.units} units", 46)  # as wide as a panel
    axis.set(title=title, xticks=depths, xlabel="depth, layers")
    axis.set_ylabel(f"{first.unit.title}{f',{first.unit.unit}' if first.unit.unit else ''}{direction}")
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    if first.unit.unit == " %":
        axis.set_ylim(-4, 104)


def _caption(rows: Sequence[Row]) -> str:
    """Return the setting in words: tables, training of the weights, number of examples, and data that stand in."""
    tables = dict.fromkeys(_source(r) for r in rows if r.paper)
    done = [r for r in rows if r.measured is not None]
    trainings = dict.fromkeys(f"{r.training_text}, seed {r.seed_text}" for r in done if r.recipe)
    tests = dict.fromkeys(f"{r.n:,} {r.split} examples" for r in done)
    caption = f"Reported: {', '.join(tables)}. " if tables else ""
    if done:
        caption += f"Measured: {_runs_text(done)}, on {', '.join(tests)} ({'; '.join(trainings)})."
    else:
        caption += "None of these models is measured yet."
    if stand_ins := dict.fromkeys(f"{r.task} on a stand-in for {r.stand_in}" for r in done if r.stand_in):
        caption += f" Measured on other data than reported: {', '.join(stand_ins)}."
    return caption


def _runs_text(rows: Sequence[Row]) -> str:
    runs = sorted({r.runs for r in rows})
    if runs == [1]:
        return "one run each"
    span = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    return f"mean and standard deviation of {span} runs"


def _source(row: Row) -> str:
    return f"{row.table} of {registry.load_registry().papers[row.paper].citation}" if row.paper else "no paper"
