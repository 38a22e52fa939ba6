"""The drawings of steps: every cell has one, it shows what the code computes, and nothing in it overlaps."""

from itertools import combinations
from xml.etree import ElementTree

import pytest

from zoo.cells import CELLS, cell_class
from zoo.publishing.site.layered import place
from zoo.publishing.site.step_drawing import step_drawing
from zoo.publishing.site.steps import Node, traced


def all_nodes(outputs: list[Node]) -> list[Node]:
    """Return the nodes of a graph, each once."""
    nodes: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in nodes:
            nodes[id(node)] = node
            for source in node.sources:
                visit(source)

    for output in outputs:
        visit(output)
    return list(nodes.values())


@pytest.mark.parametrize("cell", CELLS)
def test_a_drawing_has_the_states_and_the_input_and_its_boxes_stand_apart(cell: str) -> None:
    text = str(step_drawing(cell))
    root = ElementTree.fromstring(text)
    labels = [element.text for element in root.iter("text")]
    states = traced(cell)
    assert {node.label for node in states} <= set(labels)
    assert ("u(t)" if "x" in cell_class(cell).states else "x(t)") in labels  # some call a state x
    boxes = [tuple(float(box.attrib[k]) for k in ("x", "y", "width", "height")) for box in root.iter("rect")]
    boxes += [(float(c.attrib["cx"]) - 12, float(c.attrib["cy"]) - 12, 24.0, 24.0) for c in root.iter("circle")]
    assert len(boxes) == len(labels)
    for (ax, ay, aw, ah), (bx, by, bw, bh) in combinations(boxes, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay, cell
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert all(x >= 0 and x + w <= width and y >= 0 and y + h <= height for x, y, w, h in boxes)
    assert "const)" not in text


@pytest.mark.parametrize(("cell", "gates"), [
    ("lstm", "fio"), ("gru", "rz"), ("star", "k"), ("rnn", ""), ("mgu", "f"), ("lem", "rs"), ("ran", "fi"), ("lstm-controller", "fimo"),
])  # fmt: skip
def test_the_gates_have_the_names_of_their_input_projections(cell: str, gates: str) -> None:
    labels = [node.label for node in all_nodes(traced(cell)) if node.kind == "gate"]
    assert sorted(label.split(" = ")[0] for label in labels) == sorted(gates)
    assert set(gates) <= set(cell_class(cell).inputs)


def formula(node: Node) -> str:
    """Return a node as a formula of inputs and states."""
    terms = [formula(source) for source in node.sources]
    if node.label in ("+", "×"):
        return f"({f' {node.label} '.join(sorted(terms))})"
    return f"{node.label}[{', '.join(terms)}]" if terms else node.label


def test_the_graph_of_a_step_is_its_equation() -> None:
    (h,) = traced("ugrnn")
    both = "(input[x(t)] + recurrent[h(t − 1)])"
    g, c = f"g = σ[{both}]", f"c = tanh[{both}]"
    assert formula(h) == f"h(t)[((1 −[{g}] × {c}) + ({g} × h(t − 1)))]"


def test_layers_lead_down_and_long_arrows_pass_every_layer_between() -> None:
    sources = {"a": [], "b": ["a"], "c": ["b"], "d": ["a", "c"], "e": ["b"]}
    placed = place(list(sources), lambda node: sources[node], lambda node: 30.0, ["d", "e"])
    assert {n: placed.layer[n] for n in sources} == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 3}
    assert [layer for _, layer in placed.paths["a", "d"]] == [0, 1, 2, 3]
    assert abs(placed.x["d"] - placed.x["e"]) >= 44.0
