"""Singular values of a cell's Jacobians: "Gating revisited", sections 3.1 and 4."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from ..cells.base import State
from ..networks.recurrent import RecurrentNetwork
from ..registry.schema import Config
from .base import Array, Axis, Result
from .ensemble import Node, Weights, draw, start_values
from .subject import described, of_sequences, untrained
from .unrolled import layer_inputs, unrolled

WHICH = ("input", "state")


@dataclass(frozen=True)
class Jacobian(Result):
    """Singular values of one step of each layer. Pure numbers.

    values: (which, layer, index), falling with the index. which: "input" is J = dh_t / dx_t (eq. 6, 8, 13), "state" is
    H = dh_t / dh_{t-1} (eq. 7, 9, 14), h being the output; other states, such as c, are held. NaN where J has fewer.
    """

    values: Array

    paper = "star"
    section = "sections 3.1 and 4, eq. 6-9, 13 and 14"

    @property
    def lines(self) -> list[str]:
        found = []
        for which, text in (("input", "dh/dx"), ("state", "dh/dh")):
            v = self.values.at(which=which).values
            low, high = np.nanmin(v), np.nanmax(v)
            same = high - low < 1e-6 * max(high, 1e-30)
            found.append(f"Singular values of {text}: {f'all {high:.6g}' if same else f'{low:.3g} to {high:.3g}'}.")
        return found


def jacobian(config: Config, *, seed: int = 0) -> Jacobian:
    """At x = h = 0, with the random weights of ensemble.draw, float64; inputs are as wide as the layers.

    A ReLU has no derivative at zero, where torch's is 0: cells with one have singular values of 0 here.
    """
    own = untrained(config.architecture, name=config.name)
    ensemble = draw(own, 1, 1, torch.Generator().manual_seed(seed), torch.float64)
    layers = []
    for node, weights in zip(ensemble.nodes, ensemble.weights, strict=True):
        zeros = tuple(s[0] for s in ensemble.start(node))
        layers.append(_both(node, {n: w[0] for n, w in weights.items()}, torch.zeros_like(ensemble.x[0, :1]), zeros))
    return Jacobian(
        {"of": described(own), "at": "x = h = 0", "weights": start_values(own), "seed": seed},
        values=_array(layers),
    )


@of_sequences
def jacobian_at(network: RecurrentNetwork, x: Tensor, lengths: Tensor | None = None, step: int = -1) -> Jacobian:
    """Of a network as it is, at the states it has at a time step of x, (batch, time, *input); means over the batch.

    step: index of the time step, counted from the end if negative; with lengths, of the shortest sequence. Singular values of each sequence are sorted before
    the mean is taken.
    """
    at = step % (x.shape[1] if lengths is None else int(lengths.min()))
    layers = []
    with torch.no_grad():
        for layer, below in zip(network.layers, layer_inputs(network, x, lengths), strict=True):
            states = unrolled(layer.forward_direction, below[: at + 1], layer.forward_direction.initial_state(below[0]))
            node = Node(layer.forward_direction)
            layers.append(_both(node, dict(node.named_parameters()), below[at], states[at]))
    setting = {"of": described(network.config), "at": f"step {at + 1}", "mean over": f"{len(x)} sequences"}
    return Jacobian(setting, values=_array(layers))


def _both(node: Node, weights: Weights, x: Tensor, state: State) -> list[Tensor]:
    """Singular values of J and H, means over the batch of x."""

    def output(x: Tensor, h: Tensor, rest: State) -> Tensor:
        first = (x.unsqueeze(0), (h.unsqueeze(0), *(r.unsqueeze(0) for r in rest)))
        return functional_call(node, weights, first)[0][0]

    found = []
    for which, near in enumerate((x, state[0])):
        matrices = vmap(jacrev(output, argnums=which))(x, state[0], state[1:])
        flat = matrices.flatten(1, state[0].dim() - 1).flatten(2)
        assert flat.shape[2] == near[0].numel()
        found.append(torch.linalg.svdvals(flat.double()).mean(0).cpu())
    return found


def _array(layers: list[list[Tensor]]) -> Array:
    longest = max(len(v) for pair in layers for v in pair)
    padded = [[np.pad(v.numpy(), (0, longest - len(v)), constant_values=np.nan) for v in pair] for pair in layers]
    axes = (Axis("which", WHICH), Axis.counted("layer", len(layers)), Axis.counted("index", longest))
    return Array(np.array(padded).swapaxes(0, 1), axes, "singular value")
