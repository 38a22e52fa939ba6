"""Draw stacks.json, scaling.json and linear.json as SVG pictures of the same names in docs/: `python -m benchmarks.plot [FOLDER]`."""

import json
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from zoo.cells.colours import CELL_COLOURS
from zoo.diagnostics.benchmark import FORWARD, TRAINING
from zoo.utils.plotting import STYLE, add_caption
from zoo.utils.text import counted

from .common import FOLDER
from .scaling import BASE, VALUES

LINES = {  # by contender; they differ without colour too
    "rnnzoo star": {"label": "rnnzoo, fused", "color": CELL_COLOURS["star"], "marker": "o", "linestyle": "-"},
    "rnnzoo star, plain": {"label": "rnnzoo, plain", "color": "#1f6fb4", "marker": "s", "linestyle": "--"},
    "torchrecurrent.STAR, flushed": {
        "label": "torchrecurrent, flushed", "color": "#c9622b", "marker": "^", "linestyle": ":",
    },
}  # fmt: skip
AXES = {"steps": "time steps T", "batch": "batch B", "layers": "layers", "units": "units"}


def scaling(data: dict[str, Any]) -> Figure:
    """Plot time against steps, batch, layers and units, both axes logarithmic. The grey line shows time linear in these."""
    figure, grid = plt.subplots(2, 4, figsize=(7.6, 4.2), sharex="col", sharey="row", layout="constrained")
    for row, what in zip(grid, (FORWARD, TRAINING), strict=True):
        row[0].set_ylabel(f"{what}, s")
        for axis, (quantity, values) in zip(row, VALUES.items(), strict=True):
            fixed = {key: value for key, value in BASE.items() if key != quantity}
            rows = [r for r in data["contenders"] if all(r[key] == value for key, value in fixed.items())]
            for name, style in LINES.items():
                line = sorted((r[quantity], r["seconds"][what]) for r in rows if r["contender"] == name)
                axis.plot(*zip(*line, strict=True), **style)
            ends, last = (values[0], values[-1]), min(r["seconds"][what] for r in rows if r[quantity] == values[-1])
            axis.plot(ends, [0.5 * last * end / ends[1] for end in ends], color="0.6", linewidth=0.8, label="linear")
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(values, [str(value) for value in values])
            axis.xaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.grid(axis="y", color="0.9", linewidth=0.6)
            if what == TRAINING:
                axis.set_xlabel(AXES[quantity])
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    base = ", ".join(f"{value} {'in a batch' if key == 'batch' else key}" for key, value in BASE.items())
    add_caption(figure, f"STAR; {base} where not varied. {_machine(data)}")
    return figure


def stacks(data: dict[str, Any]) -> Figure:
    """Plot the times of a forward pass (open marks) and a training step (filled) of every contender, on a log scale.

    There is one panel for each size of stack.
    """
    sizes = list(dict.fromkeys((r["layers"], r["units"]) for r in data["contenders"]))
    figure, panels = plt.subplots(1, len(sizes), figsize=(7.6, 3.0), sharey=True, layout="constrained", squeeze=False)
    for axis, size in zip(panels[0], sizes, strict=True):
        rows = [r for r in data["contenders"] if (r["layers"], r["units"]) == size]
        places = range(len(rows), 0, -1)
        for what, fill in ((FORWARD, "white"), (TRAINING, "black")):
            taken = [r["seconds"][what] for r in rows]
            axis.plot(taken, places, "o", color="black", markerfacecolor=fill, label=what, linestyle="none")
        for place, r in zip(places, rows, strict=True):
            axis.plot([r["seconds"][w] for w in (FORWARD, TRAINING)], [place] * 2, color="0.7", zorder=0)
            end = r["seconds"][TRAINING]
            axis.annotate(f"{end:.3g}", (end, place), (5, 0), textcoords="offset points", va="center", fontsize=7)
        axis.set_xscale("log")
        axis.set_xlim(right=axis.get_xlim()[1] * 1.6)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_yticks(places, [r["contender"] for r in rows])
        axis.set_title(f"{size[0]} layers of {size[1]} units")
        axis.set_xlabel(f"seconds; {rows[0]['steps']} steps, {rows[0]['batch']} in a batch")
        axis.grid(axis="x", color="0.9", linewidth=0.6)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    add_caption(figure, _machine(data))
    return figure


def linear(data: dict[str, Any]) -> Figure:
    """Plot the time of a training step against the number of time steps, both axes logarithmic. Grey: linear time."""
    figure, axis = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
    rows = [row for row in data["rows"] if row["series"] == "length"]
    for name, marker in zip(dict.fromkeys(row["contender"] for row in rows), cycle("os^DvPX"), strict=False):
        line = sorted((row["steps"], row["seconds"]) for row in rows if row["contender"] == name)
        axis.plot(*zip(*line, strict=True), marker=marker, linestyle="-" if "rnnzoo" in name else "--", label=name)
    lengths = sorted({row["steps"] for row in rows})
    last = min(row["seconds"] for row in rows if row["steps"] == lengths[-1])
    ends = (lengths[0], lengths[-1])
    axis.plot(ends, [0.7 * last * end / ends[1] for end in ends], color="0.6", linewidth=0.8, label="linear")
    axis.set(xscale="log", yscale="log", xlabel="time steps T", ylabel="training step, s")
    axis.set_xticks(lengths, [f"{steps:,}" for steps in lengths])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    add_caption(figure, "{layers} x {units}, {batch} sequences in a batch. ".format(**rows[0]) + _machine(data))
    return figure


def _machine(data: dict[str, Any]) -> str:
    cpu, threads, version, date = (data["machine"][key] for key in ("cpu", "threads", "torch", "date"))
    return f"{cpu}, {counted(threads, 'thread')}, torch {version}, {date}."


def draw(folder: Path) -> list[Path]:
    """Plot every result file that exists to `folder`, and return the paths of the pictures."""
    written = []
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        for figure in (stacks, scaling, linear):
            source = FOLDER / f"{figure.__name__}.json"
            if source.exists():
                written.append(folder / f"{figure.__name__}.svg")
                data = json.loads(source.read_text(encoding="utf-8"))
                figure(data).savefig(written[-1], metadata={"Date": None}, bbox_inches="tight")
    plt.close("all")
    return written


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if sys.argv[1:] else FOLDER.parent / "docs")
