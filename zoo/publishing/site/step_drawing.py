"""Draws one time step of a cell as SVG: its traced graph, from input and old states (top) to new states (bottom)."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from markupsafe import Markup, escape

from ...cells import cell_row
from .charts import svg
from .diagrams import ARROW
from .layered import Placed, place
from .steps import Node, traced

ROW, HEIGHT, CHARACTER = 46, 24, 7.2
"""Distance between layers, height of a box, and width of a character, in pixels."""
WIDEST = 640
"""Width in pixels above which a drawing is scaled down."""
ROUND = {"+", "×", "−", "÷", "·", "Σ"}
CLASSES = {"input": "box end-box", "state": "box end-box", "output": "box end-box", "linear": "box", "gate": "box gate"}


@cache
def step_drawing(cell: str) -> Markup:
    """Return an SVG drawing of one time step of a cell with the default values of its options."""
    outputs = traced(cell)
    nodes = list(_ordered(outputs))
    places = place(nodes, lambda node: node.sources, _width, outputs)
    width = max(places.width + 8, WIDEST)
    shift = (width - places.width) / 2
    arrows = "".join(_arrow(points, shift) for points in places.paths.values())
    boxes = "".join(_box(node, places, shift) for node in nodes)
    gates = [node.label.split(" = ")[0] for node in nodes if node.kind == "gate" and " = " in node.label]
    words = f"A step of the {cell_row(cell).title}: {', '.join(n.label for n in nodes if n.kind in ('input', 'state'))} lead to {', '.join(n.label for n in outputs)}"
    words += f"; gates {', '.join(gates)}" if gates else ""
    return svg(ARROW + arrows + boxes, words, width, (places.layers - 1) * ROW + HEIGHT + 8)


def _ordered(outputs: list[Node]) -> Iterator[Node]:
    """Yield `outputs` and every node that they are computed from, each after its sources.

    Nested sums are merged into one sum, nested products into one product.
    """
    seen: set[int] = set()
    uses: dict[int, int] = {}

    def count(node: Node) -> None:
        for source in node.sources:
            uses[id(source)] = uses.get(id(source), 0) + 1
            if uses[id(source)] == 1:
                count(source)

    def visit(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        seen.add(id(node))
        while node.label in ("+", "×") and any(s.label == node.label and uses[id(s)] == 1 for s in node.sources):
            node.sources = [
                t for s in node.sources for t in (s.sources if s.label == node.label and uses[id(s)] == 1 else [s])
            ]
        for source in node.sources:
            yield from visit(source)
        yield node

    for output in outputs:
        count(output)
    for output in outputs:
        yield from visit(output)


def _width(node: Node) -> float:
    return HEIGHT if node.label in ROUND else max(30.0, len(node.label) * CHARACTER + 16)


def _box(node: Node, places: Placed, shift: float) -> str:
    x, y = places.x[node] + shift, places.layer[node] * ROW + 4 + HEIGHT / 2
    text = f'<text class="mid" x="{x:.0f}" y="{y + 4.5:.0f}">{escape(node.label)}</text>'
    if node.label in ROUND:
        return f'<circle class="box plain" cx="{x:.0f}" cy="{y:.0f}" r="{HEIGHT / 2:g}"/>{text}'
    width, radius = _width(node), HEIGHT / 2 if node.kind in ("gate", "function", "operation") else 3
    kind = CLASSES.get(node.kind, "box plain")
    return f'<rect class="{kind}" x="{x - width / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="{radius:g}"/>{text}'


def _arrow(points: Sequence[tuple[float, int]], shift: float) -> str:
    """Return an SVG arrow through `points`, (x in pixels, layer): straight within a layer, curved between layers.

    shift: pixels to add to each x.
    """
    ends = [(x + shift, layer * ROW + 4.0, layer * ROW + 4.0 + HEIGHT) for x, layer in points]
    path = f"M{ends[0][0]:.0f} {ends[0][2]:.0f}"
    for (x, _, bottom), (to_x, top, past) in pairwise(ends):
        bend = (bottom + top) / 2
        path += f"C{x:.0f} {bend:.0f} {to_x:.0f} {bend:.0f} {to_x:.0f} {top:.0f}V{past:.0f}"
    return f'<path class="wire" d="{path.rpartition("V")[0]}" marker-end="url(#arrow)"/>'
