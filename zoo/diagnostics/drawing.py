"""Draw the results of analyses: legible in greyscale, axes and units named, the setting below. Needs the extra `plots`."""

import hashlib
import textwrap
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..utils.figures import STYLE, picture_format, save
from .base import Array, Axis, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

LINE_STYLES, COLOURS = ("-", "--", ":", "-."), ("#000000", "#d55e00", "#0072b2", "#777777", "#009e73")
LOOKS: tuple[dict[str, Any], ...] = tuple(
    {"color": COLOURS[i % len(COLOURS)], "linestyle": LINE_STYLES[i % len(LINE_STYLES)]}
    for i in range(len(LINE_STYLES) * len(COLOURS))
)
"""Looks of lines. No two are alike and neighbours differ in style, so that lines can be told apart in grey."""
COLOUR_MAP = "cividis"
"""Its lightness rises evenly, so that it reads the same in grey."""

TitledResults = Sequence[tuple[str, Result]]
"""What one picture shows: results of one analysis, each with a title."""
Panel = tuple[str, Array]
"""A title and an array of as many dimensions as one panel can show."""


def draw(results: TitledResults, plot: str, path: Path) -> None:
    """Draw results side by side to `path`, whose ending decides the format. `plot` is a key of PLOTS.

    An SVG or PNG carries `digest(results)`, by which a stale picture is found. Raises RequestError for a format that
    matplotlib does not have, and MissingExtraError without matplotlib.
    """
    picture_format(path)
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):
        figure = PLOTS[plot](results)
        figure.supxlabel(_caption(results, figure.get_figwidth()), fontsize=6.5, color="0.3")
        save(figure, path, digest(results), dpi=130)


def digest(results: TitledResults) -> str:
    """Return sixteen hexadecimal digits that change with the content of a picture of these results."""
    text = "\n".join(f"{title}: {result.digest_text()}" for title, result in results)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _caption(results: TitledResults, width: float) -> str:
    """The part of the setting that all results share, wrapped to a figure of `width` inches."""
    settings = [dict(result.setting) for _, result in results]
    shared = {k: v for k, v in settings[0].items() if all(setting.get(k) == v for setting in settings)}
    return textwrap.fill("; ".join(f"{key}: {value}" for key, value in shared.items()), int(19 * width))


def _figure(rows: int, columns: int, panel: tuple[float, float], **options: Any) -> tuple["Figure", Any]:
    """A figure with a grid of axes, each `panel` (width, height) inches large."""
    from matplotlib.figure import Figure

    size = (max(3.6, 0.7 + panel[0] * columns), 0.7 + panel[1] * rows)
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


# maps: a colour for each number


def maps(results: TitledResults) -> "Figure":
    """Draw heat maps over the last two axes, the first of them upwards.

    There is a column for each result and a row for each array and tick of its other axes. The maps of a row share one
    colour scale. The maps of a single result stand two in a row.
    """
    titles = [title for title, _ in results]
    columns = [_map_panels(result) for _, result in results]
    rows = list(zip(*columns, strict=True)) if len(results) > 1 else _pairs(columns[0])
    ticks_up = len(rows[0][0][1].axes[0].ticks)
    figure, grid = _figure(len(rows), len(rows[0]), (2.1, 0.75 + max(0.75, 0.12 * ticks_up)))
    for i, panels in enumerate(rows):
        norm = _colour_scale([array for _, array in panels])
        for j, (name, array) in enumerate(panels):
            axes = grid[i][j]
            mesh = axes.pcolormesh(array.values, cmap=COLOUR_MAP, norm=norm, rasterized=True)
            vertical, horizontal = array.axes
            axes.set_yticks(*_ticks(vertical))
            axes.set_xticks(*_ticks(horizontal))
            axes.set_xlabel(horizontal.name if i == len(rows) - 1 else "")
            axes.set_ylabel(vertical.name if j == 0 else "")
            axes.set_title(f"{titles[j]}\n{name}" if i == 0 and len(results) > 1 else name)
        bar = figure.colorbar(mesh, ax=list(grid[i]), aspect=14, pad=0.01)
        bar.ax.tick_params(labelsize=6)
    return figure


def _map_panels(result: Result) -> list[Panel]:
    arrays = {name: array for name, array in result.arrays.items() if len(array.axes) >= 2}
    return _panels(arrays, 2)


def _panels(arrays: dict[str, Array], dimensions: int) -> list[Panel]:
    """Slices of the last `dimensions` axes, titled by the array's name and the ticks on its other axes."""
    return [
        (f"{name}, {place}" if place else name, part)
        for name, array in arrays.items()
        for place, part in array.parts(dimensions)
    ]


def _pairs(panels: list[Panel]) -> list[tuple[Panel, ...]]:
    return [tuple(panels[i : i + 2]) for i in range(0, len(panels), 2)]


def _colour_scale(arrays: list[Array]) -> "Normalize":
    """One scale for all finite values, logarithmic if the first array is."""
    from matplotlib.colors import LogNorm, Normalize

    log = arrays[0].log
    values = np.concatenate([array.values.ravel() for array in arrays])
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    return LogNorm(low, max(high, low * 1.0001)) if log and low > 0 else Normalize(low, high)


def _ticks(axis: Axis) -> tuple[list[float], list[str]]:
    """Positions and labels of a map's ticks, in the middle of its cells."""
    chosen = _few(len(axis.ticks))
    return [i + 0.5 for i in chosen], [str(axis.ticks[i]) for i in chosen]


def _few(count: int) -> list[int]:
    """Indices of at most eight of `count` ticks. Counted from one they are 1, 3, 5, ... or 1, 5, 10, ..."""
    step = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if count <= 7 * n)
    return list(range(0, count, step)) if step <= 2 else [0, *range(step - 1, count, step)]


# curves: a line for each row of numbers


def curves(results: TitledResults) -> "Figure":
    """Draw lines along the last axis, a panel for each array and tick of its other axes but the last two.

    The panels of a single result stand two in a row. Several results stand side by side, a column each, on one scale in
    every row. If each of them has one line in every panel, they share the panels instead, a line each.
    """
    titles = [title for title, _ in results]
    columns = [_curve_panels(result) for _, result in results]
    if len(results) == 1:
        return _curves_of_one(columns[0])
    if all(len(array.axes) == 1 for panels in columns for _, array in panels):
        return _curves_in_shared_panels(titles, columns)
    return _curves_side_by_side(titles, columns)


def _curve_panels(result: Result) -> list[Panel]:
    """Panels of one or two dimensions. Single numbers are left out, unless there is nothing else."""
    arrays = {name: array for name, array in result.arrays.items() if array.axes and array.axes[-1].name != "from"}
    lines = {name: array for name, array in arrays.items() if len(array.axes[-1].ticks) > 1}
    return _panels({name: _without_single_layer(array) for name, array in (lines or arrays).items()}, 2)


def _without_single_layer(array: Array) -> Array:
    single = any(axis.name == "layer" and axis.ticks == (1,) for axis in array.axes[:-1])
    return array.at(layer=1) if single else array


def _curve_grid(rows: int, columns: int, **options: Any) -> tuple["Figure", Any]:
    return _figure(rows, columns, (2.3 if columns > 2 else 3.1, 1.8), **options)


def _curves_of_one(panels: list[Panel]) -> "Figure":
    """Panels of one result, two in a row."""
    figure, grid = _curve_grid(-(-len(panels) // 2), min(2, len(panels)))
    every_axes = list(grid.flat)
    for axes, (name, array) in zip(every_axes, panels, strict=False):
        _plot_panel(axes, name, array)
    _remove(every_axes[len(panels) :])
    _add_legend(figure, [array for _, array in panels])
    return figure


def _curves_side_by_side(titles: list[str], columns: list[list[Panel]]) -> "Figure":
    """A column for each result, on one scale in every row."""
    figure, grid = _curve_grid(max(map(len, columns)), len(columns), sharey="row")
    for j, (title, panels) in enumerate(zip(titles, columns, strict=True)):
        for i, (name, array) in enumerate(panels):
            _plot_panel(grid[i][j], f"{title}\n{name}" if i == 0 else name, array)
    _remove([grid[i][j] for i in range(len(grid)) for j, panels in enumerate(columns) if i >= len(panels)])
    _add_legend(figure, [array for _, array in chain(*columns)])
    return figure


def _curves_in_shared_panels(titles: list[str], columns: list[list[Panel]]) -> "Figure":
    """Panels two in a row, in each of them one line for each result."""
    figure, grid = _curve_grid(-(-len(columns[0]) // 2), min(2, len(columns[0])))
    every_axes = list(grid.flat)
    for axes, panels in zip(every_axes, zip(*columns, strict=True), strict=False):
        for look, title, (name, array) in zip(LOOKS, titles, panels, strict=False):
            _plot_line(axes, array.axes[-1], array.values, title, look)
            _label(axes, array)
            axes.set_title(name)
    _remove(every_axes[len(columns[0]) :])
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=6)
    return figure


def _remove(unused: "Sequence[Axes]") -> None:
    for axes in unused:
        axes.remove()


def _plot_panel(axes: "Axes", name: str, array: Array) -> None:
    """Plot an array of one line, or of one for each tick of its first axis."""
    if len(array.axes) == 1:
        _plot_line(axes, array.axes[0], array.values, None, LOOKS[0])
    else:
        lines, along = array.axes
        for i, (tick, row) in enumerate(zip(lines.ticks, array.values, strict=True)):
            _plot_line(axes, along, row, str(tick), LOOKS[i % len(LOOKS)])
    _label(axes, array)
    axes.set_title(name)


def _plot_line(axes: "Axes", along: Axis, values: NDArray[np.float64], label: str | None, look: dict[str, Any]) -> None:
    marker: dict[str, Any] = {"marker": "o", "markersize": 3} if len(along.ticks) <= 8 else {}
    positions: Any = along.ticks if _is_numeric(along) else range(len(along.ticks))
    axes.plot(list(positions), values, label=label, **look, **marker)


def _is_numeric(axis: Axis) -> bool:
    return all(isinstance(tick, int | float) for tick in axis.ticks)


def _label(axes: "Axes", array: Array) -> None:
    """Set ticks, scale, labels and grid for the lines of an array."""
    along = array.axes[-1]
    if not _is_numeric(along):
        axes.set_xticks(range(len(along.ticks)), [str(tick) for tick in along.ticks])
    if array.log and (array.values[np.isfinite(array.values)] > 0).all():
        axes.set_yscale("log")
    axes.set(xlabel=along.name, ylabel=array.unit)
    axes.grid(axis="y", color="0.9", linewidth=0.6)


def _add_legend(figure: "Figure", arrays: list[Array]) -> None:
    """Add one legend if the lines of all panels have the same labels, else one below each panel."""
    labelled = [axes for axes in figure.axes if axes.get_legend_handles_labels()[0]]
    line_axes = {array.axes[0] for array in arrays if len(array.axes) == 2}
    if len(line_axes) == 1:
        handles, labels = labelled[0].get_legend_handles_labels()
        title = line_axes.pop().name
        figure.legend(handles, labels, title=title, loc="outside right upper", fontsize=6, title_fontsize=6)
    else:
        for axes in labelled:
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3, fontsize=6)


# histograms: a bar for each bin


def histograms(results: TitledResults) -> "Figure":
    """Draw bars along the axis "from", whose ticks are the left edges of equal bins.

    There is a column for each result and a row for each tick of the other axes.
    """
    columns = [_histogram_panels(result) for _, result in results]
    figure, grid = _figure(max(map(len, columns)), len(results), (2.6, 1.35))
    for j, ((title, _), panels) in enumerate(zip(results, columns, strict=True)):
        for i, (name, array) in enumerate(panels):
            axes, edges = grid[i][j], np.array(array.axes[-1].ticks, dtype=float)
            width = edges[1] - edges[0]
            axes.bar(edges, array.values, width=width, align="edge", color="0.45", edgecolor="white", linewidth=0.4)
            axes.set_title(f"{title}\n{name}" if i == 0 else name)
            axes.set_ylabel("share")
            if i == len(panels) - 1:
                axes.set_xlabel(array.unit or "value")
    return figure


def _histogram_panels(result: Result) -> list[Panel]:
    return [
        (place or name, part)
        for name, array in result.arrays.items() if array.axes and array.axes[-1].name == "from"
        for place, part in array.parts(1)
    ]  # fmt: skip


PLOTS: dict[str, Callable[[TitledResults], "Figure"]] = {"maps": maps, "curves": curves, "histograms": histograms}
