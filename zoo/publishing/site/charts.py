"""Charts as SVG inside the page, and tables of their numbers. They need no script and take their colours from site.css."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

WIDTH, HEIGHT = 480, 290
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 44
MOST_POINTS = 200
"""Most points of a curve, which is 400 pixels wide."""
TICKS = 6
"""About how many values an axis has."""
LEVELS = 12
"""Number of shades of each colour of a heat map."""
DECADES = 4
"""Powers of ten between a heat map's reference value and its deepest shade."""


@dataclass(frozen=True)
class Series:
    """One curve, or one kind of points."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashed: bool = False
    marked: bool = True
    """True to draw a mark at every point."""


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` linearly, or by their logarithm, to pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / ((high - low) or 1.0)

    def ticks(self) -> list[float]:
        """Return about TICKS round values from `low` to `high`, or powers of ten on a logarithmic scale."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            decades = [10.0**power for power in range(first, last + 1, max(1, math.ceil((last - first + 1) / TICKS)))]
            return decades if len(decades) > 1 else [self.low, self.high]
        step = nice((self.high - self.low) / (TICKS - 1))
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * i, 12) for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice(step: float) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `step`."""
    power = 10.0 ** math.floor(math.log10(step)) if step > 0 else 1.0
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * (1 - 1e-9))


def labels(values: Sequence[float]) -> list[str]:
    """Return each number as a short text for an axis, with as many digits as tell neighbours apart."""
    texts = [label(value) for value in values]
    digits = 3
    while len(set(texts)) < len(set(values)) and digits < 9:
        digits += 1
        texts = [f"{value:.{digits}g}" for value in values]
    return texts


def label(value: float) -> str:
    """Return a number as a short text for an axis: 200k, 1,000, 0.02, 1e-05."""
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    if size >= 1e4:
        return f"{value / 1e3:g}k"
    return f"{value:,.0f}" if size >= 1e3 else f"{value:.3g}"


def _scale(values: Iterable[float], start: float, end: float, log: bool) -> Scale:
    finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = (min(finite), max(finite)) if finite else (0.1, 1.0)
    if log:
        low, high = (low / 1.3, high * 1.3) if high / low < 30 else (low / 1.6, high * 1.6)
    else:
        margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - margin, high + margin
    return Scale(low, high, start, end, log)


def _frame(x: Scale, y: Scale, x_title: str, y_title: str, x_ticks: Sequence[float] | None = None) -> str:
    """Return SVG elements of the axes: grid lines, ticks and titles."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, text in zip(y.ticks(), labels(y.ticks()), strict=True):
        at = y(value)
        parts.append(
            f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/><text class="end" x="{LEFT - 6}" y="{at + 4:.1f}">{text}</text>'
        )
    for value in x_ticks or x.ticks():
        parts.append(f'<text class="mid" x="{x(value):.1f}" y="{bottom + 17}">{label(value)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    parts.append(f'<text class="mid title" x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 6}">{escape(x_title)}</text>')
    parts.append(
        f'<text class="mid title" transform="translate(13 {(TOP + bottom) / 2:.0f}) rotate(-90)">{escape(y_title)}</text>'
    )
    return "".join(parts)


def lines(
    series: Sequence[Series], x_title: str, y_title: str, *, log: bool = False, summary: str, ticks: Sequence[float] | None = None,
) -> Markup:  # fmt: skip
    """Return a chart of curves.

    log: True for a logarithmic vertical axis. summary: description for readers who cannot see the chart. ticks: values to
    mark on the horizontal axis.
    """
    xs = [x for each in series for x, _ in each.points]
    ys = [y for each in series for _, y in each.points]
    x = Scale(min(xs, default=0.0), max(xs, default=1.0), LEFT + 8, WIDTH - RIGHT - 8)
    y = _scale(ys, HEIGHT - BOTTOM - 4, TOP, log)
    parts = [_frame(x, y, x_title, y_title, ticks)]
    for each in series:
        visible = [(a, b) for a, b in sorted(each.points) if math.isfinite(b) and (b > 0 or not log)]
        points = [(x(a), y(b), a, b) for a, b in thinned(visible)]
        path = "".join(f"{'L' if i else 'M'}{px:.1f} {py:.1f}" for i, (px, py, _, _) in enumerate(points))
        values = " ".join(f"{a:g},{b:.4g}" for _, _, a, b in points)
        dash = ' class="dash"' if each.dashed else ""
        marks = (
            "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.2"/>' for px, py, _, _ in points)
            if each.marked and len(points) <= 40
            else ""
        )
        parts.append(
            f'<g class="series{" hollow" if each.dashed else ""}" style="--c:{each.colour}" data-label="{escape(each.label)}" data-v="{values}"><path{dash} d="{path}"/>{marks}</g>'
        )
    return svg("".join(parts), summary)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return about MOST_POINTS points of a curve, sorted by x: the first, the last, and each section's lowest and highest."""
    if len(points) <= MOST_POINTS:
        return list(points)
    size = math.ceil(2 * len(points) / MOST_POINTS)
    kept = {points[0], points[-1]}
    for start in range(0, len(points), size):
        stretch = points[start : start + size]
        kept |= {min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1])}
    return sorted(kept)


def legend(series: Sequence[Series]) -> Markup:
    """Return the legend of curves as an HTML list. A script makes its entries hide and show the curves."""
    items = Markup("").join(
        Markup('<li><span class="swatch{}" style="--c:{}"></span>{}</li>').format(
            " dash" if s.dashed else "", s.colour, s.label
        )
        for s in series
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


@dataclass(frozen=True)
class Point:
    """A point of a scatter plot that links to a page. Its tooltip is the name and the text; scripts find it by the name."""

    name: str
    x: float
    y: float
    colour: str
    href: str
    text: str
    filled: bool = True


def scatter(points: Sequence[Point], x_title: str, y_title: str, *, log: bool, summary: str) -> Markup:
    """Return a scatter plot whose points are links with tooltips.

    log: True for a logarithmic horizontal axis. summary: as in `lines`.
    """
    x = _scale((p.x for p in points), LEFT + 10, WIDTH - RIGHT - 10, log)
    y = _scale((p.y for p in points), HEIGHT - BOTTOM - 6, TOP + 6, False)
    dots = "".join(
        f'<a href="{escape(p.href)}" tabindex="-1"><circle{"" if p.filled else " class=hollow"} style="--c:{p.colour}" cx="{x(p.x):.1f}" cy="{y(p.y):.1f}" r="4.5"/>'
        f"<title>{escape(p.name)}: {escape(p.text)}</title></a>"
        for p in points
    )
    return svg(_frame(x, y, x_title, y_title) + f'<g class="dots">{dots}</g>', summary)


def shade(value: float, reference: float) -> int:
    """Return the shade of a value in a heat map: -LEVELS (far below the reference) to 0 (equal) to LEVELS (far above).

    A value that is not finite, a gradient that overflowed, is far above.
    """
    if value == reference:
        return 0
    if not math.isfinite(value) or reference <= 0:
        return LEVELS
    if value <= 0 or not math.isfinite(reference):
        return -LEVELS
    return max(-LEVELS, min(LEVELS, round(LEVELS * math.log10(value / reference) / DECADES)))


def heat(values: NDArray[np.float64], reference: float, *, summary: str) -> Markup:
    """Return a heat map of values, (layers, steps), the first layer at the bottom: blue below `reference`, red above it.

    A shade is a third of a decade. The numbers are in the attribute data-v, row by row, for a script that shows them under
    the pointer.
    """
    rows, columns = values.shape
    width = (WIDTH - LEFT - RIGHT) / columns
    height = max(9.0, min(26.0, 250 / rows))
    total = rows * height + 58
    cells: dict[int, str] = {}
    for (row, column), value in np.ndenumerate(values):
        level = shade(float(value), reference)
        x, y = LEFT + column * width, TOP + (rows - 1 - row) * height
        cells[level] = cells.get(level, "") + f"M{x:.1f} {y:.1f}h{width:.2f}v{height:.1f}h-{width:.2f}z"
    shapes = "".join(
        f'<path class="{"cold" if k < 0 else "warm"}" style="--p:{abs(k) / LEVELS:.0%}" d="{d}"/>'
        for k, d in sorted(cells.items())
    )
    bottom = TOP + rows * height
    y_step, x_step = (max(1, math.ceil(n / most)) for n, most in ((rows, 8), (columns, 10)))
    ticks = "".join(
        f'<text class="end" x="{LEFT - 6}" y="{bottom - (r + 0.5) * height + 4:.1f}">{r + 1}</text>'
        for r in _places(rows, y_step)
    )
    ticks += "".join(
        f'<text class="mid" x="{LEFT + (c + 0.5) * width:.1f}" y="{bottom + 16:.1f}">{c + 1}</text>'
        for c in _places(columns, x_step)
    )
    titles = f'<text class="mid title" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{bottom + 36:.1f}">step</text>'
    titles += (
        f'<text class="mid title" transform="translate(13 {TOP + rows * height / 2:.0f}) rotate(-90)">layer</text>'
    )
    numbers = ";".join(" ".join(f"{v:.3g}" for v in line) for line in values)
    attributes = f'class="heat" data-v="{numbers}" data-box="{LEFT} {TOP} {width:.3f} {height:.2f}"'
    return svg(f"<g {attributes}>{shapes}</g>{ticks}{titles}", summary, height=total)


def _places(count: int, step: int) -> list[int]:
    """Return indices from 0 to count - 1 at which to draw ticks: the first, the last, and every `step`-th between them."""
    inner = [place for place in range(step - 1, count, step) if place > 0 and count - 1 - place >= (step + 1) // 2]
    return sorted({0, *inner, count - 1})


HEAT_KEY = Markup(
    '<p class="key"><span>10<sup>-{0}</sup> of the gradient at the last layer and step (vanished)</span> '
    '<span class="ramp" role="img" aria-label="from dark blue over white, which is equal, to dark red"></span> '
    "<span>10<sup>{0}</sup> times (exploded); the middle is equal</span></p>"
).format(DECADES)


def bars(rows: Sequence[tuple[str, float, str, str, bool]], most: float, *, summary: str) -> Markup:
    """Return horizontal bars below their labels. rows: (label, value, value as text, colour, True if hollow).

    most: the value whose bar has the full width.
    """
    height, right = 38, 84
    parts = []
    for place, (name, value, text, colour, hollow) in enumerate(rows):
        y, width = place * height, max(1.0, (WIDTH - right) * min(value / most, 1.0) if most else 1.0)
        kind = "bar hollow" if hollow else "bar"
        parts.append(
            f'<text x="1" y="{y + 13}">{escape(name)}</text>'
            f'<rect class="{kind}" style="--c:{colour}" x="1" y="{y + 18}" width="{width:.1f}" height="13" rx="2"/>'
            f'<text class="title" x="{width + 8:.1f}" y="{y + 29}">{escape(text)}</text>'
        )
    return svg("".join(parts), summary, height=len(rows) * height + 2)


def svg(content: str, summary: str, width: float = WIDTH, height: float = HEIGHT) -> Markup:
    """Return an SVG picture. content: its elements. summary: its description for readers who cannot see it."""
    role = "img" if "<a " not in content else "group"
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="{role}" aria-label="{escape(summary)}">{content}</svg>'
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]], words: str = "The numbers as a table") -> Markup:
    """Return an HTML table that is folded until the reader opens it. words: the text to click on."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    words = escape(words)
    return Markup(
        f'<details class="numbers"><summary>{words}</summary><div class="scroll" tabindex="0" role="group" aria-label="{words}"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>'
    )


def number(value: float | None) -> str:
    """Return a number as text with four significant digits; "-" for None, infinity and NaN."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"
