"""The graphs that an export writes: a network over a whole sequence or over one step, with every state by its name."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tag, Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument
from torch.fx.node import Node, map_arg

from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..networks.stack import NetworkState
from ..networks.story_reader import StoryReader
from ..utils.torch_internals import OpOverload, schema

BATCH, TIME = 7, 11
"""Batch size and number of steps of the traced example. Any sizes will do but 0 and 1, which torch takes for constants."""


@dataclass(frozen=True)
class Graph:
    """One graph of a network: a module on tensors alone, with a name for each of its inputs and outputs."""

    kind: str
    """"sequence" or "step"."""
    module: nn.Module
    inputs: dict[str, Tensor]
    """An example of every input, by name."""
    outputs: tuple[str, ...]
    dynamic: tuple[dict[int, object], ...]
    """The dimensions of each input that may change."""

    def trace(self) -> ExportedProgram:
        """Return the traced graph, for any batch size and any number of steps.

        What depends on parameters alone is stored, see `_with_constants`.
        """
        examples = tuple(self.inputs.values())
        with torch.no_grad():
            self.module(*examples)  # cells keep what they compute once (zoo.cells.constants), but not while tracing
            return _with_constants(torch.export.export(self.module, examples, dynamic_shapes=(self.dynamic,)))


def _with_constants(program: ExportedProgram) -> ExportedProgram:
    """Store what a program computes from its parameters alone, such as exp(-exp(nu)), as constants; return the program.

    Every runtime then has torch's values: a decay that differs in its last digit moves the state after hundreds of steps.
    """
    signature, nodes = program.graph_signature, program.graph.nodes
    for node in list(nodes):
        if node.target is torch.ops.aten.detach_.default:  # changes no number, and fails on constants that share memory
            node.replace_all_uses_with(node.args[0])
            program.graph.erase_node(node)
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    stored = {**program.state_dict, **program.constants}
    known = {node: stored[names[node.name]] for node in nodes if node.name in names}
    views = set(known)  # parameters, and parameters in another shape or dtype: every runtime has their values already
    for node in nodes:
        if _is_function(node) and node.all_input_nodes and known.keys() >= set(node.all_input_nodes):
            known[node] = computed(node, known)
            if (is_item(node) or node.target.is_view) and node.all_input_nodes[0] in views:
                views.add(node)
    folded = [node for node in known if node not in views and any(user not in known for user in node.users)]
    for i, node in enumerate(folded):
        with program.graph.inserting_before(next(iter(nodes))):
            constant = program.graph.placeholder(f"constant_{i}")
        constant.meta["val"] = node.meta["val"].contiguous()  # in memory as the file stores it
        spec = InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(constant.name), constant.name, None)
        signature.input_specs.insert(0, spec)
        program.constants[constant.name] = known[node].contiguous()
        node.replace_all_uses_with(constant)
    for node in reversed(list(known)):
        if node.op == "call_function" and not node.users:  # dead, or a check of what is known already
            program.graph.erase_node(node)
    program.graph_module.recompile()
    program.validate()
    return program


def _is_function(node: Node) -> bool:
    """Return whether a node is one of torch's operations, changes none of its inputs and draws no random numbers."""
    target = node.target
    if not isinstance(target, OpOverload):
        return is_item(node)
    return not schema(target).is_mutable and Tag.nondeterministic_seeded not in target.tags


def computed(node: Node, values: Mapping[Node, Any]) -> Any:
    """Return what a node computes from the values of the nodes that it reads."""
    arguments, keywords = map_arg((node.args, node.kwargs), values.__getitem__)
    return cast(Callable[..., Any], node.target)(*arguments, **keywords)


def is_item(node: Node) -> bool:
    """Return whether a node selects one of the tensors that another node returns."""
    return node.target is operator.getitem


class _Sequence(nn.Module):
    """Maps x, lengths, dt if the cell uses it, and the states at the beginning to logits and the states at the end."""

    def __init__(self, network: RecurrentNetwork):
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        x, lengths, *rest = inputs
        dt, states = _gaps_apart(self.network, rest)
        logits, state = self.network.resume(x, nested(self.network, states), lengths=lengths, dt=dt)
        return logits, *flat(state)


class _Step(nn.Module):
    """Maps one time step, dt if the cell uses it, and the states before the step to logits and the states after it."""

    def __init__(self, network: RecurrentNetwork):
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        x, *rest = inputs
        dt, states = _gaps_apart(self.network, rest)
        logits, state = self.network.step(x, nested(self.network, states), dt=dt)
        return logits, *flat(state)


class _Whole(nn.Module):
    """Passes the inputs of a graph to a network that has no states."""

    def __init__(self, network: Network):
        super().__init__()
        self.network = network

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.network(*inputs)


def graph(network: Network, kind: str, *, single: bool = False, most: int | None = None) -> Graph:
    """Return a graph of a network, of kind "sequence" or "step". A step needs a unidirectional RecurrentNetwork.

    single: whether the batch size is always one. most: the largest number of steps, for runtimes that reserve memory; None
    for any number.
    """
    size, batch = (1, Dim.STATIC) if single else (BATCH, Dim("batch", min=1))
    time = Dim("time", min=1, max=most)
    steps = (TIME,) if kind == "sequence" and network.interface.readout != "none" else ()
    shape = (size, *steps, *network.interface.input)
    x = torch.zeros(shape) if network.embedding is None else torch.zeros(shape, dtype=torch.int64)
    inputs, outputs, module = {"x": x}, ["logits"], cast(nn.Module, _Whole(network))
    if steps:
        parts = (2,) if isinstance(network, StoryReader) else ()
        inputs["lengths"] = torch.ones(size, *parts, dtype=torch.int64)
    if isinstance(network, RecurrentNetwork):
        if takes_gaps(network):
            inputs["dt"] = torch.ones(size, *steps)
        states = state_names(network)
        inputs |= zip(states, flat(network.initial_state(size)), strict=True)
        outputs += [f"new_{name}" for name in states]
        module = _Sequence(network) if kind == "sequence" else _Step(network)
    like_x = {0: batch, 1: time} if steps else {0: batch}
    dynamic = tuple(like_x if name in ("x", "dt") else {0: batch} for name in inputs)
    return Graph(kind, module, inputs, tuple(outputs), dynamic)


def takes_gaps(network: RecurrentNetwork) -> bool:
    """Return whether the graphs of a network have the input dt, the times between inputs."""
    return network.layers[0].forward_direction.cell.uses_time_gaps


def _gaps_apart(network: RecurrentNetwork, inputs: list[Tensor]) -> tuple[Tensor | None, list[Tensor]]:
    """Return dt, or None if the graphs of the network have no such input, and the states. inputs: dt if any, then the states."""
    return (inputs[0], inputs[1:]) if takes_gaps(network) else (None, inputs)


def state_names(network: RecurrentNetwork) -> list[str]:
    """Return the names of all states, such as c_0, state c of the first layer, or c_0_backward in the second direction.

    With the readout "mean", two more follow: the `sum` of outputs and the `count` of steps.
    """
    names = [
        f"{state}_{depth}{suffix}"
        for depth, layer in enumerate(network.layers)
        for direction, suffix in zip(layer.directions, ("", "_backward"), strict=False)
        for state in direction.states
    ]
    return names + (["sum", "count"] if network.interface.readout == "mean" else [])


def nested(network: RecurrentNetwork, states: list[Tensor]) -> NetworkState:
    """Return `states`, in the order of `state_names`, as a network's state: a tuple for each layer, then any (sum, count)."""
    rest = iter(states)
    counts = [sum(len(direction.states) for direction in layer.directions) for layer in network.layers]
    layers = tuple(tuple(next(rest) for _ in range(count)) for count in counts)
    return (*layers, tuple(rest)) if network.interface.readout == "mean" else layers


def flat(state: NetworkState) -> list[Tensor]:
    """Return the tensors of a network's state in the order of `state_names`."""
    return [tensor for layer in state for tensor in layer]
