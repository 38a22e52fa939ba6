"""How strongly the memory depends on each gate's weights: Chen 2022, section 5.2, after Rehmer & Kroll 2020."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..cells.base import State
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .ensemble import Node, require_one_direction
from .subject import describe, requires_recurrent
from .unrolled import evenly_spread, layer_inputs, memory_index

POINTS = 20
"""Time steps analysed, evenly spread over longer sequences."""


@dataclass(frozen=True)
class Gates(Result):
    """norm: (layer, weights, step), the mean over sequences of |d(v^T s_t)/dW|, in units of s per unit of W.

    W is one gate's block of one map, "input z" or "recurrent z". s is the memory, which is c if the cell has one, else h. v
    has random signs and length 1.
    """

    norm: Array

    paper = "chen"
    section = "section 5.2, eq. 5.1-5.9"

    @property
    def lines(self) -> list[str]:
        final = self.norm.values[0, :, -1]
        pairs = sorted(zip(final, self.norm.axis("weights").ticks, strict=True), reverse=True)
        return [
            "Layer 1 at the last step: " + ", ".join(f"{name} {three_digits(value)}" for value, name in pairs) + "."
        ]


@requires_recurrent
def gates(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
    points: int = POINTS,
) -> Gates:
    """Compute the norms of every gate at up to `points` steps, at most as many as the shortest sequence has.

    The blocks of a map with as many rows as the input map are named by the cell's gates, those of other maps are
    numbered. Raises RequestError for bidirectional networks.
    """
    require_one_direction(network.config)
    shortest = x.shape[1] if lengths is None else int(lengths.min())
    steps = evenly_spread(shortest, points)
    rows = [
        _layer_norms(Node(layer.forward_direction), inputs[:shortest], layer.initial_state(inputs[0]), set(steps))
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(rows[-1])
    values = np.array([[row[name] for name in names] for row in rows])
    axes = (Axis.counted("layer", len(rows)), Axis("weights", names), Axis("step", tuple(steps)))
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Gates(setting, Array(values, axes, "|ds_t/dW|", log=True))


def _layer_norms(
    node: Node,
    inputs: Tensor,  # (time, batch, channels, ...)
    start: State,  # (batch, channels, ...) each
    steps: set[int],
) -> dict[str, list[float]]:
    """Return the norms of each block of weights at `steps`.

    Every sequence has its own copy of the weights, so that one backward pass gives each sequence's own gradient.
    """
    memory, batch = memory_index(node.direction), inputs.shape[1]
    weights = {
        name: p.detach().expand(batch, *p.shape).detach().requires_grad_(name.endswith("weight"))
        for name, p in node.named_parameters()
    }
    matrices = {name: w for name, w in weights.items() if w.requires_grad and w.dim() > 2}

    def step(w: dict[str, Tensor], x: Tensor, state: State) -> State:
        return functional_call(node, w, (x, state))

    state = tuple(s.detach().unsqueeze(1) for s in start)
    shape = state[memory].shape[1:]
    v = torch.randn(shape, generator=torch.Generator().manual_seed(0)).sign() / torch.Size(shape).numel() ** 0.5
    norms: dict[str, list[float]] = defaultdict(list)
    for t, x in enumerate(inputs.unbind(0), start=1):
        state = vmap(step)(weights, x.unsqueeze(1), state)
        if t in steps:
            errors = v.to(state[memory]).expand_as(state[memory])
            gradients = torch.autograd.grad(
                state[memory], list(matrices.values()), errors,
                retain_graph=True, allow_unused=True, materialize_grads=True,
            )  # fmt: skip
            for name, gradient in zip(matrices, gradients, strict=True):
                for label, block in _blocks(node, name, gradient):
                    norms[label].append(float(block.flatten(1).double().norm(dim=1).mean()))
    return norms


def _blocks(
    node: Node,
    name: str,
    gradient: Tensor,  # (batch, gates * units, in, ...)
) -> list[tuple[str, Tensor]]:
    """Split a map's gradient into its gates' blocks, each with a label."""
    projection = name.removeprefix("direction.").removeprefix("cell.").removesuffix(".weight")
    gates = node.direction.cell.inputs
    blocks = gradient.split(node.direction.units, 1)
    if len(blocks) == 1:
        return [(projection, gradient)]
    labels = gates if len(blocks) == len(gates) else range(1, len(blocks) + 1)
    return [(f"{projection} {label}", block) for label, block in zip(labels, blocks, strict=True)]
