"""Computes a layered layout of a graph: every arrow leads down, boxes do not overlap, long arrows pass between boxes.

The method is that of Sugiyama, Tagawa & Toda 1981: the layer of a node is its longest path from a source; nodes of a layer
are ordered by the mean position of their neighbours, and then placed as near to that position as the order allows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

SWEEPS = 24
GAP = 14.0
"""Least distance, in pixels, between two boxes of a layer."""
LANE = 6.0
"""Width, in pixels, that is kept free for an arrow that passes a layer."""
STIFFNESS = 8.0
"""Weight of a point where an arrow crosses a layer, relative to the weight of a box, when positions are computed."""


@dataclass(frozen=True)
class Placed:
    """Positions in a drawing: each node's centre `x` in pixels and its `layer`, from 0 at the top, and the arrows' paths."""

    x: Mapping[Any, float]
    layer: Mapping[Any, int]
    paths: Mapping[tuple[Any, Any], Sequence[tuple[float, int]]]
    """By arrow, (source, target): (x, layer) of its source, of each layer that it crosses, and of its target."""
    width: float
    layers: int


def place(
    nodes: Sequence[Any], sources: Callable[[Any], Sequence[Any]], width: Callable[[Any], float], last: Sequence[Any]
) -> Placed:
    """Return the positions of `nodes` in a drawing.

    nodes: each comes after its sources. sources: returns the nodes from which arrows lead to a node. width: returns the
    width of a node's box in pixels. last: nodes to put into the lowest layer.
    """
    layer: dict[Any, int] = {}
    for node in nodes:
        layer[node] = 1 + max((layer[s] for s in sources(node)), default=-1)
    bottom = max(layer.values())
    layer |= dict.fromkeys(last, bottom)
    rows: list[list[Any]] = [[] for _ in range(bottom + 1)]
    for node in nodes:
        rows[layer[node]].append(node)
    above: dict[Any, list[Any]] = {node: [] for node in nodes}
    chains: dict[tuple[Any, Any], list[Any]] = {}
    for node in nodes:
        for source in dict.fromkeys(sources(node)):
            chain = [source, *((source, node, i) for i in range(layer[source] + 1, layer[node])), node]
            for i, point in enumerate(chain[1:-1]):
                rows[layer[source] + 1 + i].append(point)
            for a, b in pairwise(chain):
                above.setdefault(b, []).append(a)
            chains[source, node] = chain
    below: dict[Any, list[Any]] = {}
    for b, neighbours in above.items():
        for a in neighbours:
            below.setdefault(a, []).append(b)
    rows = _ordered(rows, above, below)
    known = set(nodes)
    sizes = {point: width(point) if point in known else LANE for row in rows for point in row}
    x = _spread(rows, above, below, sizes)
    left = min(x[p] - sizes[p] / 2 for p in x)
    x = {point: value - left for point, value in x.items()}
    depth = {point: i for i, row in enumerate(rows) for point in row}
    paths = {ends: [(x[p], depth[p]) for p in chain] for ends, chain in chains.items()}
    return Placed(x, depth, paths, max(x[p] + sizes[p] / 2 for p in x), len(rows))


def _ordered(rows: list[list[Any]], above: Mapping[Any, list[Any]], below: Mapping[Any, list[Any]]) -> list[list[Any]]:
    """Return the layers of `rows`, each reordered by sweeps up and down; of all orders tried, those with fewest crossings.

    A point is a node, or a place where an arrow crosses a layer. rows: the points of each layer, from left to right.
    above, below: the points of the next layer, up or down, to which an arrow joins a point.
    """
    best, fewest = [list(row) for row in rows], _crossings(rows, above)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for i in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            fixed = {point: k for k, point in enumerate(rows[i - 1 if down else i + 1])}
            present = {point: k for k, point in enumerate(rows[i])}
            neighbours = above if down else below

            def key(
                point: Any, fixed: Any = fixed, present: Any = present, neighbours: Any = neighbours
            ) -> tuple[float, int]:
                places = [fixed[n] for n in neighbours.get(point, [])]
                return (sum(places) / len(places) if places else present[point], present[point])

            rows[i].sort(key=key)
        if (crossings := _crossings(rows, above)) < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(rows: list[list[Any]], above: Mapping[Any, list[Any]]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place = {point: k for k, point in enumerate(upper)}
        ends = [(place[a], k) for k, point in enumerate(lower) for a in above.get(point, [])]
        total += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(ends) for c, d in ends[:i])
    return total


def _spread(
    rows: list[list[Any]], above: Mapping[Any, list[Any]], below: Mapping[Any, list[Any]], sizes: Mapping[Any, float]
) -> dict[Any, float]:
    """Return {point: x}, x as near to the mean x of the point's neighbours as the order and the widths in its layer allow.

    rows, above, below: as in `_ordered`. sizes: widths in pixels, by point. The points of arrows that cross layers have the
    largest weight, so that long arrows run straight.
    """
    x: dict[Any, float] = {}
    for row in rows:
        at = 0.0
        for point in row:
            x[point] = at + sizes[point] / 2
            at += sizes[point] + GAP
    weight = {point: STIFFNESS if sizes[point] == LANE else 1.0 for point in x}
    for sweep in range(2 * SWEEPS):
        neighbours = (above, below)[sweep % 2]
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = []
            for point in row:
                around = neighbours.get(point, [])
                if sweep >= SWEEPS:
                    around = above.get(point, []) + below.get(point, [])
                pulls = [weight[n] if sizes[point] == LANE else 1.0 for n in around]
                pull = sum(p * x[n] for p, n in zip(pulls, around, strict=True))
                wanted.append(pull / sum(pulls) if around else x[point])
            x |= dict(zip(row, _separated(wanted, [sizes[p] for p in row], [weight[p] for p in row]), strict=True))
    return x


def _separated(wanted: Sequence[float], sizes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the centres of boxes, from left to right, that do not overlap and are nearest to `wanted` by weighted squares.

    sizes: the boxes' widths. wanted: their desired centres. weights: of the squared distances between the two.

    With the minimum distances subtracted, this is isotonic regression, solved by pooling adjacent violators.
    """
    offsets = [0.0]
    for a, b in pairwise(sizes):
        offsets.append(offsets[-1] + (a + b) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight and number
    for value, offset, weight in zip(wanted, offsets, weights, strict=True):
        total, heavy, count = weight * (value - offset), weight, 1
        while pools and pools[-1][0] / pools[-1][1] > total / heavy:
            before = pools.pop()
            total, heavy, count = total + before[0], heavy + before[1], count + before[2]
        pools.append((total, heavy, count))
    levels = [total / heavy for total, heavy, count in pools for _ in range(count)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]
