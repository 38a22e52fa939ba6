"""Draws architectures as SVG: layers are rows, time steps are columns; input at the bottom, outputs at the top."""

from markupsafe import Markup, escape

from ...cells import FEEDFORWARD, cell_row
from ...registry import Entry
from ...utils.text import counted
from .charts import svg

WIDTH = 480
COLUMNS = (78, 190, 302)
READS = {"mean": "mean over steps", "last": "last step", "every": "every step"}
"""By the readout of a task: what its head reads."""
BOX = 92
"""Width in pixels of the box of a layer at one time step."""
LABELS = ("t − 1", "t", "t + 1")
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
    '<path class="head" d="M0 0.8L7 4L0 7.2z"/></marker></defs>'
)


def drawing(entry: Entry) -> Markup:
    """Return an SVG drawing of a model's architecture: its layers, unrolled over three time steps if it is recurrent."""
    if entry.model.cell in FEEDFORWARD:
        content, height = _plain(entry)
    elif entry.task.form == "question":
        content, height = _story(entry)
    else:
        content, height = _unrolled(entry)
    spec = entry.model
    words = f"{counted(spec.layers, 'layer')} of {counted(spec.units, 'unit')} ({cell_row(spec.cell).title}) between {entry.task.example_text} and {entry.task.outputs} outputs"
    return svg(ARROW + content, words, WIDTH, height)


def _box(x: float, y: float, width: float, height: float, text: str = "", kind: str = "box") -> str:
    words = f'<text class="mid" x="{x + width / 2:g}" y="{y + height / 2 + 4:g}">{escape(text)}</text>' if text else ""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>{words}'


def _arrow(x: float, y: float, to_x: float, to_y: float, both: bool = False) -> str:
    start = ' marker-start="url(#arrow)"' if both else ""
    return f'<path class="wire" d="M{x:g} {y:g}L{to_x:g} {to_y:g}" marker-end="url(#arrow)"{start}/>'


def _outputs(entry: Entry) -> str:
    task = entry.task
    return f"{task.outputs} {'classes' if task.target == 'class' else 'values' if task.outputs > 1 else 'value'}"


def _input(entry: Entry) -> str:
    spec, task = entry.model, entry.task
    if spec.embedding:
        return f"words, as vectors of {spec.embedding.size}"
    numbers = " x ".join(map(str, task.input))
    return f"{numbers} number{'s' * (numbers != '1')} per step{', standardised' if spec.standardize else ''}"


def _unrolled(entry: Entry) -> tuple[str, float]:
    """Return (SVG elements, height) of a recurrent network: layers in rows and three time steps in columns."""
    spec, task = entry.model, entry.task
    rows = 1 if cell_row(spec.cell).layers_inside else spec.layers
    height, gap = (32, 16) if rows <= 6 else (16, 9)
    base = 92 + rows * (height + gap)  # lower edge of the lowest layer's row
    parts = []
    for row in range(rows):
        y = base - (row + 1) * (height + gap) + gap
        for place, x in enumerate(COLUMNS):
            parts.append(_box(x, y, BOX, height, spec.cell if height > 20 else ""))
            parts.append(_arrow(x + BOX / 2, y + height + gap - 1, x + BOX / 2, y + height + 1))
            if place:
                parts.append(
                    _arrow(
                        COLUMNS[place - 1] + BOX + 1, y + height / 2, x - 1, y + height / 2, bool(spec.bidirectional)
                    )
                )
        parts.append(_arrow(COLUMNS[0] - 24, y + height / 2, COLUMNS[0] - 1, y + height / 2, bool(spec.bidirectional)))
        parts.append(f'<path class="wire" d="M{COLUMNS[-1] + BOX} {y + height / 2}h22"/>')
        if rows <= 6 or row in (0, rows - 1):
            parts.append(f'<text class="end" x="{COLUMNS[0] - 30}" y="{y + height / 2 + 4}">{row + 1}</text>')
    top = 92 + gap
    side = COLUMNS[-1] + BOX + 28
    width = f"{spec.units} units" if not spec.kernel else f"{spec.units} maps"
    words = [
        f"depth {spec.layers}" if rows == 1 and spec.layers > 1 else "",
        width,
        "both ways" if spec.bidirectional else "",
        "in blocks" if spec.block else "",
    ]
    middle = (top + base) / 2
    lines = [word for word in words if word]
    parts += [
        f'<text x="{side}" y="{middle + 16 * (i - (len(lines) - 1) / 2) + 4:g}">{word}</text>'
        for i, word in enumerate(lines)
    ]
    for x, text in zip(COLUMNS, LABELS, strict=True):
        parts.append(f'<text class="mid title" x="{x + BOX / 2}" y="{base + 24}">{text}</text>')
    parts.append(
        f'<text class="mid" x="{COLUMNS[1] + BOX / 2}" y="{base + 46}">{escape(_input(entry))}, {counted(task.steps, "step")}</text>'
    )
    every = task.readout in ("mean", "every")
    parts.append(_box(118, 10, 236, 30, f"{READS[task.readout]}, {_outputs(entry)}", "box end-box"))
    for x in COLUMNS if every else COLUMNS[-1:]:
        parts.append(
            f'<path class="wire" d="M{x + BOX / 2} {top - 1}V66H{min(max(x + BOX / 2, 140), 332)}V42" marker-end="url(#arrow)"/>'
        )
    return "".join(parts), base + 56


def _story(entry: Entry) -> tuple[str, float]:
    """Return (SVG elements, height) of a StoryReader: the stacks for story and question, and the decoder above them."""
    spec = entry.model
    layers = f"{spec.layers} x {spec.units} {spec.cell}"
    parts = [
        _box(150, 10, 180, 30, _outputs(entry), "box end-box"), _arrow(240, 78, 240, 42),
        _box(120, 80, 240, 40, f"decoder, {layers}"), _arrow(130, 168, 200, 122), _arrow(350, 168, 280, 122),
        _box(24, 170, 206, 40, f"story, {layers}"), _box(250, 170, 206, 40, f"question, {layers}"),
        _arrow(127, 244, 127, 212), _arrow(353, 244, 353, 212),
        f'<text class="mid" x="240" y="264">{escape(_input(entry))}</text>',
    ]  # fmt: skip
    return "".join(parts), 276


def _plain(entry: Entry) -> tuple[str, float]:
    """Return (SVG elements, height) of a feed-forward network: its layers in rows."""
    spec, step = entry.model, 46
    base = 56 + spec.layers * step
    parts = [_box(150, 10, 180, 28, _outputs(entry), "box end-box")]
    for row in range(spec.layers):
        y = base - (row + 1) * step
        parts += [_box(150, y, 180, 30, f"layer {row + 1}, {spec.units} units"), _arrow(240, y + 45, 240, y + 31)]
    parts += [
        _arrow(240, 55, 240, 39),
        f'<text class="mid" x="240" y="{base + 16}">{escape(entry.task.example_text)}</text>',
    ]
    return "".join(parts), base + 28
