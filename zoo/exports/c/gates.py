"""The gates of a layer: every sigmoid in the graph of its step that reads an input projection, under the projection's name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, fx

from ...networks.layer import Layer
from ..graphs import is_item
from .tracing import ATEN, VIEWS, Trace

_ADDED: dict[object, int] = {
    ATEN.add.Tensor: 2, ATEN.sub.Tensor: 2, ATEN.addmm.default: 1, ATEN.addcmul.default: 1, ATEN.mul.Tensor: 2, ATEN.layer_norm.default: 1,
}  # fmt: skip
"""Operations that may lie between an input projection and its gate's sigmoid, and how many of their first arguments can be the
projection."""


@dataclass(frozen=True)
class Gate:
    """A gate: the numbers from `offset` to `offset + size` of the flattened tensor of `node`, all between 0 and 1."""

    name: str
    node: fx.Node
    offset: int
    size: int


def gates(trace: Trace, layer: Layer) -> list[Gate]:
    """Return the gates of a layer in the order in which its step computes them; of several with one name, the first."""
    direction = layer.forward_direction
    channels = torch.tensor(direction.input_channels)
    blocks = torch.arange(1, len(channels) + 1).repeat_interleave(channels)
    weights = _input_weights(trace)
    labels: dict[fx.Node, Tensor] = {}
    found: dict[str, Gate] = {}
    for node in trace.graph.nodes:
        if node.op != "call_function" or node in weights:
            continue
        value = node.meta["val"]
        reads_weights = any(each in weights for each in node.all_input_nodes)
        if reads_weights and isinstance(value, Tensor) and value.numel() == len(blocks):
            labels[node] = blocks.view(value.shape)
        elif node.target is ATEN.sigmoid.default and node.args[0] in labels:
            for block, offset, length in _runs(labels[node.args[0]]):
                name = direction.cell.inputs[block - 1]
                found.setdefault(name, Gate(name, node, offset, length))
        elif (label := _label(node, labels)) is not None:
            labels[node] = label
    return list(found.values())


def _input_weights(trace: Trace) -> set[fx.Node]:
    """Return the nodes that depend on the weights of the input projection alone."""
    found: set[fx.Node] = set()
    for node in trace.graph.nodes:
        sources = node.all_input_nodes
        is_weight = trace.weights.get(node.name, "").startswith("layer.directions.0.input.")
        if is_weight or (sources and all(each in found for each in sources)):
            found.add(node)
    return found


def _label(node: fx.Node, labels: Mapping[fx.Node, Tensor]) -> Tensor | None:
    """Return, for each number of a node, 1 + the index in Cell.inputs of the input projection among its summands; 0 for none.

    labels: the results for earlier nodes. None if no number contains an input projection.
    """
    first = node.args[0] if node.args else None
    if is_item(node):
        return labels[first][node.args[1]] if first in labels else None  # type: ignore[index]
    if node.target in VIEWS or node.target is ATEN.cat.default:
        if not any(each in labels for each in node.all_input_nodes):
            return None
        known = {n: labels.get(n, torch.zeros(n.meta["val"].shape, dtype=torch.int64)) for n in node.all_input_nodes}
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        if node.target is ATEN._to_copy.default or node.target in (ATEN.to.dtype, ATEN.to.dtype_layout):
            return known[cast(fx.Node, first)]
        return cast(Tensor, node.target(*arguments, **keywords))
    terms = [labels[n] for n in node.args[: _ADDED.get(node.target, 0)] if isinstance(n, fx.Node) and n in labels]
    if len(terms) != 1:
        return None
    return terms[0].expand(node.meta["val"].shape)


def _runs(label: Tensor) -> Iterator[tuple[int, int, int]]:
    """Yield (label, offset, length) for each run of equal positive numbers in the flattened tensor `label`."""
    values, counts = label.flatten().unique_consecutive(return_counts=True)
    offset = 0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if value:
            yield value, offset, count
        offset += count
