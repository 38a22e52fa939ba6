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
from .subject import describe, requires_recurrent, without_task
from .unrolled import layer_inputs, unroll

WHICH = ("input", "state")


@dataclass(frozen=True)
class Jacobian(Result):
    """Singular values of one step of each layer. Pure numbers.

    values: (which, layer, index), in descending order. which: "input" is J = dh_t / dx_t (eq. 6, 8, 13), "state" is
    H = dh_t / dh_{t-1} (eq. 7, 9, 14). h is the output; other states, such as c, are held constant. NaN fills up the
    Jacobians that have fewer singular values.
    """

    values: Array

    paper = "star"
    section = "sections 3.1 and 4, eq. 6-9, 13 and 14"

    @property
    def lines(self) -> list[str]:
        lines = []
        for which, text in (("input", "dh/dx"), ("state", "dh/dh")):
            values = self.values.at(which=which).values
            low, high = np.nanmin(values), np.nanmax(values)
            equal = high - low < 1e-6 * max(high, 1e-30)
            lines.append(f"Singular values of {text}: {f'all {high:.6g}' if equal else f'{low:.3g} to {high:.3g}'}.")
        return lines


def jacobian(config: Config, *, seed: int = 0) -> Jacobian:
    """Compute them at x = h = 0, with the random weights of ensemble.draw, in float64; inputs are as wide as the layers.

    A ReLU has no derivative at zero. torch takes 0 for it, so cells with a ReLU have singular values of 0 here. Raises
    RequestError for networks without time steps or with two directions.
    """
    config = without_task(config.architecture, name=config.name)
    ensemble = draw(config, 1, 1, torch.Generator().manual_seed(seed), torch.float64)
    layers = []
    for node, weights in zip(ensemble.nodes, ensemble.weights, strict=True):
        zeros = tuple(s[0] for s in ensemble.zero_state(node))
        weights_of_run = {name: w[0] for name, w in weights.items()}
        layers.append(_singular_values(node, weights_of_run, torch.zeros_like(ensemble.x[0, :1]), zeros))
    setting = {"of": describe(config), "at": "x = h = 0", "weights": start_values(config), "seed": seed}
    return Jacobian(setting, values=_array(layers))


@requires_recurrent
def jacobian_at(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
    step: int = -1,
) -> Jacobian:
    """Compute them for a network with its weights, at the states that it has at one time step.

    step: index of the time step, from the end of the shortest sequence if negative. The singular values of each sequence
    are sorted before their mean over the batch is taken. Of a bidirectional network, the forward direction is analysed.
    """
    t = step % (x.shape[1] if lengths is None else int(lengths.min()))
    layers = []
    with torch.no_grad():
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True):
            direction = layer.forward_direction
            states = unroll(direction, inputs[: t + 1], direction.initial_state(inputs[0]))
            node = Node(direction)
            layers.append(_singular_values(node, dict(node.named_parameters()), inputs[t], states[t]))
    setting = {"of": describe(network.config), "at": f"step {t + 1}", "mean over": f"{len(x)} sequences"}
    return Jacobian(setting, values=_array(layers))


def _singular_values(
    node: Node,
    weights: Weights,
    x: Tensor,  # (batch, channels, ...)
    state: State,  # (batch, channels, ...) each
) -> list[Tensor]:
    """Return the singular values of J and of H, (index,) each, means over the batch."""

    def output(x: Tensor, h: Tensor, other_states: State) -> Tensor:
        state = (h.unsqueeze(0), *(s.unsqueeze(0) for s in other_states))
        return functional_call(node, weights, (x.unsqueeze(0), state))[0][0]

    values = []
    for argument in (0, 1):  # x and h
        jacobians = vmap(jacrev(output, argnums=argument))(x, state[0], state[1:])
        matrices = jacobians.flatten(1, state[0].dim() - 1).flatten(2)  # (batch, outputs, inputs)
        values.append(torch.linalg.svdvals(matrices.double()).mean(0).cpu())
    return values


def _array(
    layers: list[list[Tensor]],  # singular values of J and of H for each layer
) -> Array:
    longest = max(len(values) for pair in layers for values in pair)
    padded = [[np.pad(v.numpy(), (0, longest - len(v)), constant_values=np.nan) for v in pair] for pair in layers]
    axes = (Axis("which", WHICH), Axis.counted("layer", len(layers)), Axis.counted("index", longest))
    return Array(np.array(padded).swapaxes(0, 1), axes, "singular value")
