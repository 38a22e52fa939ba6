"""The equations of one layer as a graph: what torch records of one step, with everything that no input changes computed."""

import operator
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from ...cells.base import State
from ...networks.layer import Direction

ATEN = torch.ops.aten
SAME = {
    ATEN.view.default, ATEN.unsqueeze.default, ATEN.squeeze.dim, ATEN.expand.default, ATEN.detach.default,
    ATEN.detach_.default, ATEN._to_copy.default, ATEN.to.dtype, ATEN.clone.default, ATEN.contiguous.default,
    ATEN.alias.default, ATEN.lift_fresh_copy.default, ATEN.reshape.default, ATEN.flatten.using_ints,
    ATEN.unflatten.int, ATEN.expand_as.default,
}  # fmt: skip
"""Operations that leave the numbers of one sequence as they lie in memory."""

FILLED = {ATEN.ones_like.default: 1.0, ATEN.zeros_like.default: 0.0, ATEN.new_zeros.default: 0.0}
"""Operations whose result has one value, whatever the numbers of their argument."""


class LayerStep(nn.Module):
    """One time step of one layer, from what the layer reads to its new states."""

    def __init__(self, direction: Direction):
        super().__init__()
        self.direction = direction

    def forward(self, x: Tensor, *state: Tensor) -> State:
        direction = self.direction
        return direction.step(direction.cell.prepare(direction.input(x)), state)


@dataclass(frozen=True)
class Trace:
    """The recorded step of a layer for one sequence. Layers whose weights have the same shapes share it."""

    graph: fx.Graph
    x: fx.Node
    states: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    """The new states."""
    weights: dict[str, str]
    """Names of parameters, by the names of their nodes."""
    tensors: dict[str, Tensor]
    """Values of the other tensors that the equations name, by the names of their nodes."""

    def constants(self, direction: Direction) -> dict[fx.Node, Tensor]:
        """Return the values of all nodes that depend on weights alone, for one layer's weights."""
        module = LayerStep(direction)
        values: dict[fx.Node, Tensor] = {}
        for node in self.graph.nodes:
            if node.name in self.weights:
                values[node] = module.get_parameter(self.weights[node.name]).detach()
            elif node.name in self.tensors:
                values[node] = self.tensors[node.name]
            elif node.op == "call_function" and all(each in values for each in node.all_input_nodes):
                arguments = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*arguments[0], **arguments[1])
            elif node.target in FILLED:
                values[node] = torch.full(node.meta["val"].shape, FILLED[node.target])
        return values


def trace(direction: Direction) -> Trace:
    """Return the recorded step of a layer that is dense, in float32, in eval mode, and on the CPU."""
    x = torch.zeros(1, direction.input.weight.shape[1])
    program = torch.export.export(LayerStep(direction), (x, *direction.initial_state(x)), strict=False)
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = [nodes[name] for name in signature.user_inputs]
    tensors = {name: program.constants[target] for name, target in signature.inputs_to_lifted_tensor_constants.items()}
    output = next(node for node in program.graph.nodes if node.op == "output")
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return Trace(program.graph, inputs[0], tuple(inputs[1:]), tuple(output.args[0]), weights, tensors)


def size(node: fx.Node) -> int:
    """Return how many numbers a node's tensor has."""
    return node.meta["val"].numel()


def is_item(node: fx.Node) -> bool:
    """Return whether a node takes one tensor out of several."""
    return node.target is operator.getitem
