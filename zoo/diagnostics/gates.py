"""How strongly the memory depends on each gate's weights: Chen 2022, section 5.2, after Rehmer & Kroll 2020."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..cells.base import State
from ..errors import RequestError
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .ensemble import Node
from .subject import described, of_sequences
from .unrolled import carrier, layer_inputs

POINTS = 20


@dataclass(frozen=True)
class Gates(Result):
    """norm: (layer, weights, step), the mean over sequences of |d(v^T s_t)/dW|, W being one gate's block of one map,
    "input z" or "recurrent z"; s the memory, c where there is one, else h; v random signs over the root of their number, so
    that it has length 1. In units of s by units of W."""

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


@of_sequences
def gates(network: RecurrentNetwork, x: Tensor, lengths: Tensor | None = None, points: int = POINTS) -> Gates:
    """Norms for every gate at up to `points` steps of x: (batch, time, *input); lengths only bound the steps looked at.

    A map whose rows are as many as those of the input map has its gates' names, any other's blocks are numbered.
    Raises RequestError for bidirectional networks.
    """
    if network.config.architecture.bidirectional:
        raise RequestError(f"{network.config.name} is bidirectional; this analysis is of networks of one direction.")
    steps = x.shape[1] if lengths is None else int(lengths.min())
    at = sorted({int(t) for t in np.linspace(1, steps, min(points, steps)).round()})
    rows: list[dict[str, list[float]]] = []
    for layer, below in zip(network.layers, layer_inputs(network, x, lengths), strict=True):
        rows.append(_layer(Node(layer.forward_direction), below[:steps], layer.initial_state(below[0]), set(at)))
    names = tuple(rows[-1])
    values = np.array([[row[name] for name in names] for row in rows])
    axes = (Axis.counted("layer", len(rows)), Axis("weights", names), Axis("step", tuple(at)))
    setting = {"of": described(network.config), "sequences": len(x)}
    return Gates(setting, Array(values, axes, "|ds_t/dW|", log=True))


def _layer(node: Node, below: Tensor, start: State, at: set[int]) -> dict[str, list[float]]:
    """Each sequence has a copy of the weights, so that one backward pass gives every sequence's own gradient."""
    place, batch = carrier(node.way), below.shape[1]
    weights = {
        name: p.detach().expand(batch, *p.shape).detach().requires_grad_(name.endswith("weight"))
        for name, p in node.named_parameters()
    }

    def one(w: dict[str, Tensor], x: Tensor, state: State) -> State:
        return functional_call(node, w, (x, state))

    state = tuple(s.detach().unsqueeze(1) for s in start)
    shape = state[place].shape[1:]
    v = torch.randn(shape, generator=torch.Generator().manual_seed(0)).sign() / torch.Size(shape).numel() ** 0.5
    of = {name: w for name, w in weights.items() if w.requires_grad and w.dim() > 2}
    found: dict[str, list[float]] = {}
    for t, x in enumerate(below.unbind(0), start=1):
        state = vmap(one)(weights, x.unsqueeze(1), state)
        if t in at:
            errors = v.to(state[place]).expand_as(state[place])
            grads = torch.autograd.grad(
                state[place], list(of.values()), errors, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for name, g in zip(of, grads, strict=True):
                for label, block in _blocks(node, name, g):
                    norm = block.flatten(1).double().norm(dim=1).mean()
                    found.setdefault(label, []).append(float(norm))
    return found


def _blocks(node: Node, name: str, g: Tensor) -> list[tuple[str, Tensor]]:
    """A map's gradient, (batch, gates * units, in, ...), cut into its gates, with their names."""
    parts = name.removeprefix("way.").removeprefix("cell.").removesuffix(".weight")
    units, gates = node.way.units, node.way.cell.inputs
    blocks = g.split(units, 1)
    if len(blocks) == 1:
        return [(parts, g)]
    known = len(blocks) == len(gates)
    return [(f"{parts} {gates[i] if known else i + 1}", block) for i, block in enumerate(blocks)]
