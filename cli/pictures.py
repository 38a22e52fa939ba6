"""No command, but the drawings of `rnnzoo inspect` in a terminal: heat maps and sparklines of arrays, each with its range."""

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from zoo.diagnostics.base import Array, Result

BLOCKS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
WIDTH = 60
FEW = 4
"""At most this many numbers are printed as numbers."""
ROWS = 12
"""At most this many sparklines are printed."""


def render(result: Result, title: str) -> Text:
    """Draw a result: a heat map of each array of layers and steps, sparklines of the others, then its findings in words.

    title: what stands before the caption, which says of what the result is.
    """
    console = Console()
    grey = console.color_system is not None and not console.no_color
    picture = Text(f"{title} {result.caption}")
    for name, array in result.arrays.items():
        if not array.values.size or name in result.summarised:
            continue
        picture.append("\n\n")
        picture.append_text(Text("\n").join(_maps(name, array, grey) if _is_map(array) else _sparks(name, array)))
    if result.lines:
        picture.append("\n\n" + "\n".join(result.lines))
    return picture


def _is_map(array: Array) -> bool:
    return len(array.axes) >= 2 and (array.axes[-2].name, array.axes[-1].name) == ("layer", "step")


def _scaled(values: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    """Return values, after log10 if `log`, scaled linearly so that the finite ones reach from 0 to 1; all 0 if they are equal.

    NaN and infinities stay or become NaN, except that -inf, such as log10(0), becomes 0 if the finite values differ.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log10(values) if log else values
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.full(values.shape, np.nan)
    low, high = finite.min(), finite.max()
    if high - low < 1e-9 * abs(high):  # rounding alone
        return np.where(np.isfinite(values), 0.0, np.nan)
    return (np.where(np.isneginf(values), low, values) - low) / ((high - low) or 1.0)


def _range(array: Array) -> str:
    finite = array.values[np.isfinite(array.values)]
    if not finite.size:
        return "no finite value"
    low, high = f"{finite.min():.3g}", f"{finite.max():.3g}"
    unit = f" {array.unit}" if array.unit else ""
    return (low if low == high else f"{low} to {high}") + unit + (", logarithmic" if array.log else "")


def _maps(name: str, array: Array, grey: bool) -> list[Text]:
    """Return the lines of the heat maps of an array called `name`, whose last axes are layers and steps.

    Each slice of the other axes is a map, with one line per layer, the top layer first. grey: draw in shades of grey, for
    which the terminal must have colours; otherwise in block characters.
    """
    lines = []
    for where, part in array.parts(2):
        lines.append(Text(f"{name}{f', {where}' if where else ''}: {_range(part)}"))
        label = max(len(str(t)) for t in part.axes[0].ticks)
        rows = list(zip(part.axes[0].ticks, _thinned(_scaled(part.values, part.log)), strict=True))
        lines += [
            Text.assemble(f"  layer {str(tick).rjust(label)} ", *(_shade(value, grey) for value in row))
            for tick, row in reversed(rows)
        ]
        steps = part.axes[1].ticks
        lines.append(Text(f"  {' ' * (label + 7)}step {steps[0]} to {steps[-1]}"))
    return lines


def _shade(value: float, grey: bool) -> tuple[str, str]:
    """Return (text, style) for a value in [0, 1], or for NaN or infinity: two characters, and their style for rich.

    grey: show the value by a shade of grey as background, not by block characters.
    """
    if not np.isfinite(value):
        return "··", ""
    if grey:
        light = 40 + round(215 * value)
        return "  ", f"on rgb({light},{light},{light})"
    return SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)] * 2, ""


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return at most WIDTH of the entries of `values` along its last axis, evenly spaced, the first and the last included."""
    return values[..., np.unique(np.linspace(0, values.shape[-1] - 1, WIDTH).round().astype(int))]


def _sparks(name: str, array: Array) -> list[Text]:
    """Return the lines that show an array called `name`: one sparkline along the last axis for each slice of the other axes.

    An array with a single axis of at most FEW values is printed as numbers; one without axes as its value.
    """
    unit = f" {array.unit}" if array.unit else ""
    if not array.axes:
        return [Text(f"{name}: {_range(array)}")]
    if len(array.axes) == 1 and len(array.axes[0].ticks) <= FEW:
        pairs = zip(array.axes[0].ticks, array.values, strict=True)
        numbers = ", ".join(f"{tick}: {value:.3g}" for tick, value in pairs)
        return [Text(f"{name} by {array.axes[0].name}: {numbers}{unit}")]
    rows = array.parts(1)
    ends = array.axes[-1].ticks
    lines = [Text(f"{name} by {array.axes[-1].name}, {ends[0]} to {ends[-1]}{', logarithmic' if array.log else ''}")]
    width = max(len(where) for where, _ in rows)
    for where, part in rows[:ROWS]:
        scaled = _thinned(_scaled(part.values, part.log))
        spark = "".join(_block(value) for value in scaled)
        lines.append(Text(f"  {where.ljust(width)}  {spark}  {_range(Array(part.values, part.axes, part.unit))}"))
    if len(rows) > ROWS:
        lines.append(Text(f"  and {len(rows) - ROWS} more; --json and --plot show all"))
    return lines


def _block(value: float) -> str:
    """Return the block character whose height shows a value in [0, 1], or a dot for NaN and infinities."""
    return BLOCKS[min(int(value * len(BLOCKS)), len(BLOCKS) - 1)] if np.isfinite(value) else "·"
