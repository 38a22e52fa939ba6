"""Pictures of arrays in a terminal: heat maps and sparklines, with their range in words."""

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from zoo.diagnostics.base import Array, Result

BLOCKS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
WIDTH = 60
FEW = 4
"""So many numbers are printed as they are."""
ROWS = 12
"""Sparklines of more rows than this would not be looked at; the first ones are shown."""


def pictured(result: Result) -> Text:
    """Every array of a result: a heat map of layers over steps, else sparklines; then what they say."""
    console = Console()
    grey = console.color_system is not None and not console.no_color
    shown = Text(result.caption)
    for name, array in result.arrays.items():
        if not array.values.size:
            continue
        shown.append("\n\n")
        shown.append_text(Text("\n").join(_maps(name, array, grey) if _is_map(array) else _sparks(name, array)))
    if result.lines:
        shown.append("\n\n" + "\n".join(result.lines))
    return shown


def _is_map(array: Array) -> bool:
    return len(array.axes) >= 2 and (array.axes[-2].name, array.axes[-1].name) == ("layer", "step")


def _scaled(values: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    """Values to [0, 1], on a logarithmic scale if they span decades; what is not finite stays so."""
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log10(values) if log else values
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.full(values.shape, np.nan)
    low, high = finite.min(), finite.max()
    if high - low < 1e-9 * abs(high):  # rounding is no finding
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
    """A line a layer, in greys or, where a terminal has no colours, in blocks."""
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
    """Two characters and their style."""
    if not np.isfinite(value):
        return "··", ""
    if grey:
        light = 40 + round(215 * value)
        return "  ", f"on rgb({light},{light},{light})"
    return SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)] * 2, ""


def _thinned(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most WIDTH columns."""
    return values[..., np.unique(np.linspace(0, values.shape[-1] - 1, WIDTH).round().astype(int))]


def _sparks(name: str, array: Array) -> list[Text]:
    unit = f" {array.unit}" if array.unit else ""
    if not array.axes:
        return [Text(f"{name}: {_range(array)}")]
    if len(array.axes) == 1 and len(array.axes[0].ticks) <= FEW:
        pairs = zip(array.axes[0].ticks, array.values, strict=True)
        return [Text(f"{name}: " + ", ".join(f"{tick} {value:.3g}{unit}" for tick, value in pairs))]
    rows = array.parts(1)
    ends = array.axes[-1].ticks
    lines = [Text(f"{name} by {array.axes[-1].name}, {ends[0]} to {ends[-1]}{', logarithmic' if array.log else ''}")]
    width = max(len(where) for where, _ in rows)
    for where, part in rows[:ROWS]:
        scaled = _thinned(_scaled(part.values, part.log))
        spark = "".join(BLOCKS[min(int(v * len(BLOCKS)), len(BLOCKS) - 1)] if np.isfinite(v) else "·" for v in scaled)
        lines.append(Text(f"  {where.ljust(width)}  {spark}  {_range(Array(part.values, part.axes, part.unit))}"))
    if len(rows) > ROWS:
        lines.append(Text(f"  and {len(rows) - ROWS} more; --json and --plot have all"))
    return lines
