"""Draws the results of analyses, legible in greyscale, with named axes and units. Needs the extra `plots`."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..cells.colours import cell_colour
from ..utils.plotting import STYLE, add_caption, picture_format, save
from .base import Array, Axis, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

T = TypeVar("T")

TITLES = {"loss last": "loss on the last output", "loss all": "loss on all outputs"}
"""Title of a panel, by the title of the slice that it shows (see Array.parts)."""
READING = {
    "mean": "Bright: a large gradient; dark: a small one. The loss on the last output enters at the top right, the last "
    "layer and step. A dark corner gets almost no gradient: at the bottom right it vanishes on its way through the layers, "
    "at the top left through the steps. A corner brighter than the top right: the gradient explodes.",
    "spread": "Bright: the gradient differs much from one random network to the next; dark: it is much the same in all.",
}
"""By name of an array: a caption that explains how to read its heat map."""
LINE_STYLES, COLOURS = ("-", "--", ":", "-."), ("#000000", "#d55e00", "#0072b2", "#777777", "#009e73")
LOOKS = [{"color": COLOURS[i % 5], "linestyle": LINE_STYLES[i % 4]} for i in range(20)]
"""Styles of lines, as options of matplotlib. All differ, and neighbours differ in dashes, to be distinct in greyscale."""
COLOUR_MAP = "cividis"
"""A colour map whose lightness rises evenly, so that a picture can be read in greyscale."""

TitledResults = Sequence[tuple[str, Result]]
"""The content of one picture: results of one analysis, each with a title."""
Panel = tuple[str, Array]
"""A title, and an array with as many dimensions as one panel can show."""


def draw(results: TitledResults, plot: str, path: Path) -> None:
    """Draw results side by side, and write the picture to `path`, whose suffix decides the format.

    plot: a key of PLOTS. An SVG or PNG contains `digest(results)`, by which `is_stale` recognises an outdated picture.
    Raises RequestError for a format that matplotlib does not have, and MissingExtraError without matplotlib.
    """
    picture_format(path)
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure = PLOTS[plot](results)
        settings = [dict(result.setting) for _, result in results]
        shared = {k: v for k, v in settings[0].items() if all(setting.get(k) == v for setting in settings)}
        if len(results) == 1:
            figure.suptitle(results[0][0], fontsize=9)
        reading = [READING[name] for name in results[0][1].arrays if plot == "maps" and name in READING]
        add_caption(figure, "\n".join([*reading, "; ".join(f"{key}: {value}" for key, value in shared.items())]))
        save(figure, path, digest(results), dpi=130)


def digest(results: TitledResults) -> str:
    """Return a digest, 16 hexadecimal digits, of what a picture shows: the titles, settings and arrays, without the lines."""
    text = "\n".join(
        f"{title}: {json.dumps(replace(result, lines=()).to_json(), sort_keys=True)}" for title, result in results
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_stale(path: Path, results: TitledResults) -> bool:
    """Return True unless `path` is an up-to-date picture of `results`."""
    return not path.exists() or digest(results).encode() not in path.read_bytes()


def _panels(arrays: dict[str, Array], dimensions: int) -> list[Panel]:
    """Return a panel for every slice of `arrays` that keeps the last `dimensions` axes.

    A panel's title has the name of the array, if there are several, and the ticks of the other axes.
    """
    return [
        (", ".join(filter(None, [name if len(arrays) > 1 or not place else "", TITLES.get(place, place)])), part)
        for name, array in arrays.items()
        for place, part in array.parts(dimensions)
    ]


def _side_by_side(results: TitledResults, columns: Sequence[Sequence[Panel]]) -> list[list[Panel | None]]:
    """Return rows of panels, with a column for each result. columns: the panels of each result. None fills short columns.

    If there are several results, the first panel of each column also has the result's title.
    """
    headed = [
        [(name if i or len(results) == 1 else f"{title}\n{name}", array) for i, (name, array) in enumerate(panels)]
        for (title, _), panels in zip(results, columns, strict=True)
    ]
    return [list(row) for row in zip_longest(*headed)]


def _in_pairs(panels: Sequence[T]) -> list[Sequence[T]]:
    return [panels[i : i + 2] for i in range(0, len(panels), 2)]


def _figure(
    rows: Sequence[Sequence[T | None]], width: float, height: float, **options: Any
) -> tuple["Figure", list[list[tuple["Axes", T]]]]:
    """Return (a new figure, its axes beside their panels: a list of (axes, panel) for each row).

    rows: the panels of each row; None leaves a gap. width, height: of one panel, in inches. options: of Figure.subplots.
    """
    from matplotlib.figure import Figure

    columns = max(map(len, rows))
    figure = Figure(figsize=(max(3.6, 0.7 + width * columns), 0.7 + height * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False, **options)
    cells = [list(zip_longest(line, row)) for line, row in zip(grid, rows, strict=True)]
    for axes, panel in chain(*cells):
        if panel is None:
            axes.remove()
    return figure, [[(axes, panel) for axes, panel in line if panel is not None] for line in cells]


def maps(results: TitledResults) -> "Figure":
    """Draw heat maps over the last two axes: the second to last upwards, the last to the right.

    There is a column for each result, and a row for each array and each tick of its other axes. The maps in a row share one
    colour scale. The maps of a single result are placed two in a row.
    """
    columns = [_panels({k: v for k, v in result.arrays.items() if len(v.axes) >= 2}, 2) for _, result in results]
    rows = _in_pairs(columns[0]) if len(results) == 1 else _side_by_side(results, columns)
    layers = len(columns[0][0][1].axes[0].ticks)
    figure, cells = _figure(rows, 2.1, 0.75 + max(0.75, 0.12 * layers))
    for i, row in enumerate(cells):
        norm = _colour_scale([array for _, (_, array) in row])
        for j, (axes, (title, array)) in enumerate(row):
            shown = np.clip(array.values, norm.vmin, norm.vmax)  # 0 on a logarithmic scale, and infinity
            mesh = axes.pcolormesh(shown, cmap=COLOUR_MAP, norm=norm, rasterized=True)
            vertical, horizontal = array.axes
            axes.set_yticks(*_ticks(vertical))
            axes.set_xticks(*_ticks(horizontal))
            axes.set_xlabel(horizontal.name if i == len(cells) - 1 else "")
            axes.set_ylabel(vertical.name if j == 0 else "")
            axes.set_title(title)
        bar = figure.colorbar(mesh, ax=[axes for axes, _ in row], aspect=14, pad=0.01)
        bar.ax.tick_params(labelsize=6)
        bar.set_label(row[0][1][1].unit, fontsize=7)
    return figure


def _colour_scale(arrays: list[Array]) -> "Normalize":
    """Return one colour scale for the finite values of all arrays, logarithmic if the first array has log=True."""
    from matplotlib.colors import LogNorm, Normalize

    log = arrays[0].log
    values = np.concatenate([array.values.ravel() for array in arrays])
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    return LogNorm(low, max(high, low * 1.0001)) if log and low > 0 else Normalize(low, high)


def _ticks(axis: Axis) -> tuple[list[float], list[str]]:
    """Return (positions, labels) of at most eight ticks at the centres of a map's cells: 1, 3, 5, ... or 1, 5, 10, ..."""
    count = len(axis.ticks)
    step = next(n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if count <= 7 * n)
    chosen = list(range(0, count, step)) if step <= 2 else [0, *range(step - 1, count, step)]
    return [i + 0.5 for i in chosen], [str(axis.ticks[i]) for i in chosen]


LinePanel = tuple[str, str | None, list[tuple[str | None, Array, dict[str, Any]]]]
"""A title, the title of its legend, and its lines: a label, an array of one dimension, and options of matplotlib."""


def curves(results: TitledResults) -> "Figure":
    """Draw lines along the last axis, with a line for each tick of the axis before it.

    There is a panel for each array and each tick of its other axes. The panels of a single result are placed two in a row.
    Several results have a column each, and the panels in a row share one scale; but if every panel has a single line, the
    results share the panels, with a line each.
    """
    rows, has_columns = _curve_rows(results)
    width = 2.3 if max(map(len, rows)) > 2 else 3.1
    figure, cells = _figure(rows, width, 1.8, sharey="row" if has_columns else False)
    for row in cells:
        for place, (axes, panel) in enumerate(row):
            _draw_panel(axes, panel, label_unit=place == 0 or not has_columns)
    _add_legend(figure, list(chain(*cells)))
    return figure


def _curve_rows(results: TitledResults) -> tuple[Sequence[Sequence[LinePanel | None]], bool]:
    """Return (rows of panels, True if each result has its own column) for `curves`, which says how they are arranged."""
    columns = [_curve_panels(result) for _, result in results]
    titles, depths = [title for title, _ in results], [_layers(panels) for panels in columns]
    if len(results) == 1:
        return _in_pairs([_line_panel(panel, titles[0], depths[0]) for panel in columns[0]]), False
    if all(len(array.axes) == 1 for panels in columns for _, array in panels):
        return _in_pairs([_shared_panel(panels, titles) for panels in zip(*columns, strict=True)]), False
    rows = [zip(row, titles, depths, strict=True) for row in _side_by_side(results, columns)]
    return [[panel and _line_panel(panel, title, depth) for panel, title, depth in row] for row in rows], True


def _layers(panels: Sequence[Panel]) -> int:
    """Return the number of lines in the panel with the most layers, so that a layer has one colour in all panels."""
    return max((len(array.axes[0].ticks) for _, array in panels if array.axes[0].name == "layer"), default=0)


def _shared_panel(panels: Sequence[Panel], titles: Sequence[str]) -> LinePanel:
    """Return one panel with a line for each result. panels: one of each result, with an array of one dimension."""
    arrays = [array for _, array in panels]
    return panels[0][0], None, list(zip(titles, arrays, _looks(titles), strict=True))


def _draw_panel(axes: "Axes", panel: LinePanel, label_unit: bool) -> None:
    """Draw the lines of a panel, on a logarithmic scale if the first array has log=True and every value is positive.

    The scale is logarithmic, too, if a layer's line would lie on the axis below those of others. label_unit: True to label the vertical axis with the unit.
    """
    title, what, lines = panel
    for label, array, look in lines:
        _plot_line(axes, array, label, look)
    first = lines[0][1]
    values = [array.values[np.isfinite(array.values)] for _, array, _ in lines]
    finite, tops = np.concatenate(values), [float(each.max()) for each in values if each.size]
    if not finite.size:
        axes.text(0.5, 0.5, "no finite value", transform=axes.transAxes, ha="center", va="center")
    elif first.log and (finite > 0).all():
        axes.set_yscale("log")
    elif what == "layer" and finite.min() >= 0 and 0 < min(tops) < max(tops) / 20:
        axes.set_yscale("log", nonpositive="mask")
        axes.set_ylim(bottom=max(float(finite[finite > 0].min()), min(tops) / 1e3))
    axes.set(title=title, xlabel=first.axes[0].name, ylabel=first.unit if label_unit else "")
    axes.grid(axis="y", color="0.9", linewidth=0.6)


def _curve_panels(result: Result) -> list[Panel]:
    """Return panels of one or two dimensions. Arrays whose last axis has only one tick are left out if others have more."""
    arrays = {name: array for name, array in result.arrays.items() if array.axes and array.axes[-1].name != "from"}
    lines = {name: array for name, array in arrays.items() if len(array.axes[-1].ticks) > 1} or arrays
    single = Axis.counted("layer", 1)
    return _panels({k: v.at(layer=1) if single in v.axes[:-1] else v for k, v in lines.items()}, 2)


def _line_panel(panel: Panel, owner: str, layers: int) -> LinePanel:
    """Return a panel's lines: one line for an array of one dimension, else a line for each tick of the first of two axes.

    owner: title of the panel's result. The cell in this title decides the colour of a single line. layers: see `_layers`.
    """
    title, array = panel
    if len(array.axes) == 1:
        return title, None, [(None, array, _looks([owner])[0])]
    name, ticks = array.axes[0].name, array.axes[0].ticks
    labels, parts = [str(tick) for tick in ticks], [array.at(**{name: tick}) for tick in ticks]
    looks = _graded(layers)[: len(ticks)] if name == "layer" else _looks(labels)
    return title, name, list(zip(labels, parts, looks, strict=True))


def _looks(titles: Sequence[str]) -> list[dict[str, Any]]:
    """Return the style of a line for each title, as options of matplotlib.

    A title that begins with a cell's name gets that cell's colour, with new dashes each time; any other gets one of LOOKS.
    """
    looks, seen = [], Counter[str]()
    for i, colour in enumerate(map(cell_colour, titles)):
        if colour is None:
            looks.append(LOOKS[i % len(LOOKS)])
        else:
            looks.append({"color": colour, "linestyle": LINE_STYLES[seen[colour] % len(LINE_STYLES)]})
            seen[colour] += 1
    return looks


def _graded(count: int) -> list[dict[str, Any]]:
    """Return the styles of the lines of `count` layers, from dark for the lowest layer to light for the highest."""
    from matplotlib import colormaps

    return [{"color": colormaps[COLOUR_MAP](0.9 * i / max(count - 1, 1))} for i in range(count)]


def _plot_line(axes: "Axes", array: Array, label: str | None, look: dict[str, Any]) -> None:
    ticks = array.axes[0].ticks
    marker: dict[str, Any] = {"marker": "o", "markersize": 3} if len(ticks) <= 8 else {}
    numeric = all(isinstance(tick, int | float) for tick in ticks)
    axes.plot(ticks if numeric else range(len(ticks)), array.values, label=label, **look, **marker)
    if not numeric:
        axes.set_xticks(range(len(ticks)), [str(tick) for tick in ticks])


def _add_legend(figure: "Figure", cells: list[tuple["Axes", LinePanel]]) -> None:
    """Add one legend for the figure if the lines of all panels have the same labels, else a legend below each panel."""
    labelled = [(axes, (what, [line[0] for line in lines])) for axes, (_, what, lines) in cells if lines[0][0]]
    small: dict[str, Any] = {"fontsize": 6, "title_fontsize": 6}
    if labelled and all(legend == labelled[0][1] for _, legend in labelled):
        axes, (what, _) = labelled[0]
        figure.legend(*axes.get_legend_handles_labels(), title=what, loc="outside right upper", **small)
    else:
        for axes, (what, _) in labelled:
            axes.legend(title=what, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=3, **small)


def histograms(results: TitledResults) -> "Figure":
    """Draw bars along the axis "from", whose ticks are the left edges of equal bins.

    There is a column for each result and a row for each tick of the other axes.
    """
    columns = [
        [(place or name, part)
         for name, array in result.arrays.items() if array.axes and array.axes[-1].name == "from"
         for place, part in array.parts(1)]
        for _, result in results
    ]  # fmt: skip
    figure, cells = _figure(_side_by_side(results, columns), 2.6, 1.35)
    for axes, (title, array) in chain(*cells):
        edges = np.array(array.axes[-1].ticks, dtype=float)
        width = edges[1] - edges[0]
        axes.bar(edges, array.values, width=width, align="edge", color="0.45", edgecolor="white", linewidth=0.4)
        axes.set(title=title, ylabel="share")
        if any(array is panels[-1][1] for panels in columns):  # the lowest of its column
            axes.set_xlabel(array.unit or "value")
    return figure


PLOTS: dict[str, Callable[[TitledResults], "Figure"]] = {"maps": maps, "curves": curves, "histograms": histograms}
