"""Norm of the loss gradient at every node of many unrolled networks: what each node's own copy of the parameters gets.

A node is one layer at one time step. Two backward passes, one for each loss, compute the gradients of all nodes of all
networks, because every tensor has a leading dimension of runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..cells.base import State
from ..cells.projections import Dense
from .ensemble import Ensemble, Node, Weights

LOSSES = ("last", "all")
"""The loss on the output at the last step, and on the outputs at all steps."""

RowOf = Callable[[int, str], int]
"""Row of the lattice in which a parameter counts, by its layer, from 0, and its name."""


def node_gradients(ensemble: Ensemble, row_of: RowOf, biases: bool = True) -> Tensor:
    """Return |dL/dw| for every node's own copy of the parameters w, (runs, loss, row, step), float64.

    biases: True to count them among the parameters.
    """
    rows = 1 + max(row_of(layer, name) for layer, weights in enumerate(ensemble.weights) for name in weights)
    norms = NormRecorder(ensemble.runs, rows, steps=ensemble.x.shape[1])
    outputs = [x.unsqueeze(1) for x in ensemble.x.unbind(1)]  # of the layer below, at every step
    for layer, (node, weights) in enumerate(zip(ensemble.nodes, ensemble.weights, strict=True)):
        outputs = _unroll_layer(ensemble, TappedNode(node), weights, outputs, partial(row_of, layer), norms, biases)
    errors = [error.unsqueeze(1) for error in ensemble.errors.unbind(1)]
    last = norms.backward(outputs[-1:], errors[-1:], retain_graph=True)
    every = norms.backward(outputs, errors)
    return torch.stack([last, every], 1).sqrt()


def _unroll_layer(
    ensemble: Ensemble,
    node: "TappedNode",
    weights: Weights,
    inputs: Sequence[Tensor],  # (runs, 1, channels, ...) at every step
    row_of: Callable[[str], int],
    norms: "NormRecorder",
    biases: bool,
) -> list[Tensor]:
    """Return a layer's outputs, (runs, 1, channels, ...) at every step, and have every node's gradient recorded.

    Every node gets copies of the parameters of its own. A tapped map needs none: its gradient follows from what the tap
    finds.
    """
    outputs: list[Tensor] = []
    state = ensemble.zero_state(node.node)
    counted = [name for name in weights if not node.taps(name) and (biases or not name.endswith("bias"))]
    for step, x in enumerate(inputs):
        copies = {name: weights[name].detach().requires_grad_() for name in counted}
        offsets = {name: _zero_offset(weights[f"{name}.weight"]) for name in node.maps}
        state, map_inputs = node(weights | copies, offsets, x, state)
        outputs.append(state[0])
        for name, copy in copies.items():
            norms.record(copy, row_of(name), step)
        for name, offset in offsets.items():
            # |error input^T|^2 = |error|^2 |input|^2 for the matrix, and |error|^2 more for the bias
            factor = map_inputs[name].detach().flatten(1).double().square().sum(1)
            with_bias = biases and f"{name}.bias" in weights
            norms.record(offset, row_of(f"{name}."), step, factor + with_bias)
    return outputs


def _zero_offset(
    weight: Tensor,  # (runs, out, in)
) -> Tensor:
    """Return zeros to add to the output of a dense map, (runs, 1, out)."""
    runs, out, _ = weight.shape
    return weight.new_zeros(1).expand(runs, 1, out).detach().requires_grad_()


class NormRecorder:
    """Adds up squared gradient norms of many leaves during a backward pass.

    A leaf's gradient is dropped as soon as it is complete, so that the gradients of two nodes never exist at once.
    """

    def __init__(self, runs: int, rows: int, steps: int):
        self.squares = torch.zeros(runs, rows, steps, dtype=torch.float64)

    def record(
        self,
        leaf: Tensor,  # (runs, ...)
        row: int,
        step: int,
        factor: Tensor | float = 1.0,  # (runs,)
    ) -> None:
        """Add factor |gradient of leaf|^2 to the sum at (row, step) in every backward pass from now on."""
        leaf.register_post_accumulate_grad_hook(partial(self._add, row, step, factor))

    def _add(self, row: int, step: int, factor: Tensor | float, leaf: Tensor) -> None:
        if leaf.grad is not None:
            norm = torch.linalg.vector_norm(leaf.grad.flatten(1), dim=1).double()
            self.squares[:, row, step] += factor * norm.square()
            leaf.grad = None

    def backward(self, outputs: Sequence[Tensor], errors: Sequence[Tensor], retain_graph: bool = False) -> Tensor:
        """Return the sums, (runs, rows, steps), for errors that arrive at outputs."""
        self.squares.zero_()
        torch.autograd.backward(outputs, errors, retain_graph=retain_graph)
        return self.squares.clone()


class TappedNode:
    """A node that also returns what its dense maps read, and adds an offset to what they put out.

    The gradient of a dense map's matrix is the outer product of the error at its output and its input. Its norm is the
    product of their norms, so the gradient itself is never formed. The error is the gradient of an offset of zero. Only
    maps of which this holds are tapped: dense, without normalisation or parametrization, and called once a step.
    """

    def __init__(self, node: Node):
        self.node = node
        self.maps = _maps_called_once(node) if node.direction.cell.axis == -1 else {}

    def taps(self, parameter: str) -> bool:
        """True if the parameter belongs to a tapped map."""
        return parameter.rpartition(".")[0] in self.maps

    def __call__(
        self,
        weights: Weights,
        offsets: dict[str, Tensor],  # (runs, 1, out) for each tapped map
        x: Tensor,  # (runs, 1, channels, ...)
        state: State,  # (runs, 1, channels, ...) each
    ) -> tuple[State, dict[str, Tensor]]:
        """Return the new states and the inputs of the tapped maps, (runs, 1, in) each."""

        def step(
            weights: Weights, offsets: dict[str, Tensor], x: Tensor, state: State
        ) -> tuple[State, dict[str, Tensor]]:
            map_inputs: dict[str, Tensor] = {}

            def tap(name: str, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
                map_inputs[name] = arguments[0]
                return output + offsets[name]

            with _forward_hooks(self.maps, tap):
                return functional_call(self.node, weights, (x, state)), map_inputs

        return vmap(step)(weights, offsets, x, state)


def _maps_called_once(node: Node) -> dict[str, Dense]:
    """Dense maps, used as they are, that one step calls once; found by a step on the meta device."""
    plain = {
        name: module
        for name, module in node.named_modules()
        if isinstance(module, Dense) and module.norm is None and module.parametrization is None
    }
    calls: Counter[str] = Counter()
    x = torch.empty(1, node.direction.input.weight.shape[1], device="meta")
    with _forward_hooks(plain, lambda name, arguments, output: calls.update([name])):
        node(x, node.direction.initial_state(x))
    return {name: module for name, module in plain.items() if calls[name] == 1}


@contextmanager
def _forward_hooks(
    modules: dict[str, Dense], hook: Callable[[str, tuple[Tensor, ...], Tensor], Tensor | None]
) -> Iterator[None]:
    """Call hook(name, arguments, output) after every call of a module; what it returns replaces the output, unless None."""
    handles = [
        module.register_forward_hook(lambda _, arguments, output, name=name: hook(name, arguments, output))
        for name, module in modules.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
