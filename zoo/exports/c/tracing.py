"""Traces one step of a layer with torch as a graph, and computes in advance everything that depends on weights alone."""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn

from ...networks.layer import Layer
from ...utils.torch_internals import OpOverload, schema
from ..graphs import computed

ATEN = torch.ops.aten
VIEWS = {
    ATEN.view.default, ATEN.reshape.default, ATEN.flatten.using_ints, ATEN.unflatten.int, ATEN.unsqueeze.default,
    ATEN.squeeze.dim, ATEN.squeeze.dims, ATEN.expand.default, ATEN.expand_as.default, ATEN.view_as.default,
    ATEN.detach.default, ATEN.detach_.default, ATEN.alias.default, ATEN.clone.default, ATEN.contiguous.default,
    ATEN.lift_fresh_copy.default, ATEN._to_copy.default, ATEN.to.dtype, ATEN.to.dtype_layout, ATEN.transpose.int,
    ATEN.permute.default, ATEN.movedim.int, ATEN.movedim.intlist, ATEN.slice.Tensor, ATEN.narrow.default,
    ATEN.select.int, ATEN.unbind.int, ATEN.split.Tensor, ATEN.split.sizes, ATEN.split_with_sizes.default,
    ATEN.chunk.default, ATEN.tensor_split.indices, ATEN.numpy_T.default, ATEN.dropout.default,
}  # fmt: skip
"""Operations that only reshape, reorder or select the numbers of their first argument."""
FILLED = {ATEN.ones_like.default: 1.0, ATEN.zeros_like.default: 0.0, ATEN.new_zeros.default: 0.0}
"""Operations that return a tensor filled with one number, and this number."""


class LayerStep(nn.Module):
    """Computes one time step of one layer: maps the layer's input x and its states to its output and its new states.

    For a cell that uses the time between inputs, dt, (1,), follows x.
    """

    def __init__(self, layer: Layer):
        super().__init__()
        self.layer, self.gaps = layer, int(layer.forward_direction.cell.uses_time_gaps)

    def forward(self, x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        dt, state = rest[: self.gaps], rest[self.gaps :]
        output, new_state = self.layer.step(x, state, *dt)
        return output, *new_state


@dataclass(frozen=True)
class Trace:
    """The graph of one step of a layer for one sequence. Layers of the same signature share it.

    x, dt, states, output, new_states: the graph's nodes for the inputs and the results of the step; dt is None for a cell
    that does not use the time between inputs.
    """

    graph: fx.Graph
    x: fx.Node
    dt: fx.Node | None
    states: tuple[fx.Node, ...]
    output: fx.Node
    new_states: tuple[fx.Node, ...]
    weights: dict[str, str]
    """Names of LayerStep's parameters and buffers, by the names of their nodes."""
    parameters: set[str]
    """Names of the parameters' nodes."""
    tensors: dict[str, Tensor]
    """Values of the graph's other constant tensors, by the names of their nodes."""

    def constants(self, layer: Layer) -> dict[fx.Node, Tensor]:
        """Return the values of all nodes that depend on weights alone, computed with the weights of `layer`."""
        module = LayerStep(layer)
        weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        values: dict[fx.Node, Tensor] = {}
        for node in self.graph.nodes:
            if node.name in self.weights:
                values[node] = weights[self.weights[node.name]].detach()
            elif node.name in self.tensors:
                values[node] = self.tensors[node.name]
            elif node.op == "call_function" and all(each in values for each in node.all_input_nodes):
                values[node] = computed(node, values)
            elif node.target in FILLED:
                values[node] = torch.full(node.meta["val"].shape, FILLED[node.target])
        return values

    def learned(self) -> set[fx.Node]:
        """Return the nodes that depend on a parameter."""
        found: set[fx.Node] = set()
        for node in self.graph.nodes:
            if node.name in self.parameters or not found.isdisjoint(node.all_input_nodes):
                found.add(node)
        return found


def trace(layer: Layer, inputs: int) -> Trace:
    """Return the graph of a step of `layer` on `inputs` features. The layer is dense, float32, in eval mode, and on the CPU."""
    x, step = torch.zeros(1, inputs), LayerStep(layer)
    program = torch.export.export(step, (x, *[torch.ones(1)] * step.gaps, *layer.initial_state(x)), strict=False)
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    first, *rest = [nodes[name] for name in signature.user_inputs]
    dt, states = (rest[0] if step.gaps else None), tuple(rest[step.gaps :])
    tensors = {name: program.constants[target] for name, target in signature.inputs_to_lifted_tensor_constants.items()}
    output, *new_states = [nodes[name] for name in signature.user_outputs]
    parameters = signature.inputs_to_parameters
    weights = {**parameters, **signature.inputs_to_buffers}
    return Trace(program.graph, first, dt, states, output, tuple(new_states), weights, set(parameters), tensors)


def named_arguments(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of an operation by the names that torch gives them, with their default values."""
    arguments = schema(cast(OpOverload, node.target)).arguments
    names = [argument.name for argument in arguments]
    return (
        {each.name: each.default_value for each in arguments} | dict(zip(names, node.args, strict=False)) | node.kwargs
    )


def size(node: fx.Node) -> int:
    """Return the number of elements of a node's tensor."""
    return node.meta["val"].numel()
