"""How much the memory depends on its start, on each gate's weights, and on either end of the sequence: Chen 2022.

Noh's indicator: sections 4.2.2 and 5.1. Gradients of gates: section 5.2, after Rehmer & Kroll 2020. The long-term
dependency test: sections 4.2.1 and 4.4.1. The memory s of a cell is c if the cell has one, else h.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from ..cells.base import State
from ..checkpoints import results
from ..checkpoints.tokenizer import UNKNOWN
from ..errors import RequestError
from ..networks.layer import Layer
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import TARGETS, Target
from ..training.evaluation import score
from .base import Array, Axis, Result
from .ensemble import Node, require_one_direction
from .subject import describe, evenly_spread, layer_inputs, memory_index, requires_recurrent, sequence_lengths, unroll

POINTS = 60
"""Time steps at which the indicator is computed, evenly spread over longer sequences."""
GATE_POINTS = 20
"""Time steps at which the gradients of gates are computed, likewise."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of a sequence's steps that the dependency test replaces."""
Probe = Literal["ones", "signs"]


@dataclass(frozen=True)
class Noh(Result):
    """How much the memory at step t depends on the first one. Pure numbers; NaN if every derivative is zero.

    indicator: (layer, step), log10 of the mean of |v^T ds_t/ds_0| over units and over the sequences that have a step t.
    end: (layer,), the same at every sequence's own last step.
    """

    indicator: Array
    end: Array

    paper = "chen"
    section = "sections 4.2.2 and 5.1, Fig. 5.1-5.3"

    @property
    def lines(self) -> list[str]:
        first, last = (self.indicator.axis("step").ticks[i] for i in (0, -1))
        return [
            f"Layer {layer}: the mean |ds_t/ds_0| is {_power(row[0])} at step {first} and {_power(row[-1])} at step {last}."
            for layer, row in enumerate(self.indicator.values, start=1)
        ]


@dataclass(frozen=True)
class History(Result):
    """indicator: (layer, epoch), Noh.end after each epoch of a training run.
    metric: (epoch,), the metric on the validation data; an accuracy is a fraction."""

    indicator: Array
    metric: Array

    paper = "chen"
    section = "section 5.1, Fig. 5.1 and 5.2"

    @property
    def lines(self) -> list[str]:
        return [
            f"Layer {layer}: {_power(row[0])} after the first epoch, {_power(row[-1])} after the last, "
            f"median {_power(float(np.nanmedian(row)))}."
            for layer, row in enumerate(self.indicator.values, start=1)
        ]


def _power(logarithm: float) -> str:
    return f"{10.0**logarithm:.3g}" if np.isfinite(logarithm) else "0"


def history(folder: Path) -> History:
    """Return what `rnnzoo train --diagnose noh` recorded in the folder of a run.

    Raises RequestError if the run did not record noh in every epoch.
    """
    training = results.read(folder).training
    if training is None or not training.history or not all("noh" in epoch.diagnostics for epoch in training.history):
        raise RequestError(f"{folder} has no run that recorded noh in every epoch: rnnzoo train NAME --diagnose noh.")
    epochs = training.history
    indicator = np.array([[np.nan if v is None else v for v in epoch.diagnostics["noh"]] for epoch in epochs]).T
    axes = (Axis.counted("layer", len(indicator)), Axis("epoch", tuple(epoch.epoch for epoch in epochs)))
    setting = {"of": training.model, "recipe": training.recipe_name, "seed": training.recipe.seed, "v": "ones"}
    metric = np.array([epoch.validation_metric for epoch in epochs])
    return History(setting, Array(indicator, axes, "log10 |ds_T/ds_0|"), Array(metric, axes[1:], training.metric))


@requires_recurrent
def noh(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
    probe: Probe = "ones",
    points: int = POINTS,
) -> Noh:
    """Compute the indicator of every layer at up to `points` steps, in eval mode.

    probe: v. "ones" is what the thesis uses: the gradient of the sum of s_t. In a sum, derivatives of different signs
    cancel; "signs", which are random and fixed, shows whether that matters. Raises RequestError for bidirectional networks.
    """
    longest = x.shape[1] if lengths is None else int(lengths.max())
    steps = evenly_spread(longest, points)
    rows = np.array(_log_derivatives(network, x, lengths, probe, [*steps, None]))
    layers, unit = Axis.counted("layer", len(rows)), "log10 |ds_t/ds_0|"
    setting = {"of": describe(network.config), "sequences": len(x), "v": probe}
    indicator = Array(rows[:, :-1], (layers, Axis("step", tuple(steps))), unit)
    return Noh(setting, indicator, Array(rows[:, -1], (layers,), unit))


@requires_recurrent
def per_epoch(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    y: Tensor,
    lengths: Tensor | None,  # (batch,)
    target: Target,
) -> list[float | None]:
    """Return the indicator of each layer at each sequence's last step, None for a derivative of zero; y is not used."""
    logs = [layer[-1] for layer in _log_derivatives(network, x, lengths, "ones", [None])]
    return [value if np.isfinite(value) else None for value in logs]


def _log_derivatives(
    network: RecurrentNetwork, x: Tensor, lengths: Tensor | None, probe: Probe, steps: Sequence[int | None]
) -> list[list[float]]:
    """Return log10 of the mean |v^T ds_t/ds_0| of every layer at every step t; None is each sequence's own last step."""
    require_one_direction(network.config)
    ends = sequence_lengths(x, lengths)
    pairs = zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    means = [list(_derivatives(layer, inputs, ends, probe, steps)) for layer, inputs in pairs]
    return [[float(np.log10(mean)) if mean > 0 else float("nan") for mean in row] for row in means]


def _derivatives(
    layer: Layer, inputs: Tensor, ends: Tensor, probe: Probe, steps: Sequence[int | None]
) -> Iterator[float]:
    """Yield the mean |v^T ds_t/ds_0| at every step t; None stands for `ends`, (batch,). inputs: (time, batch, ...)."""
    direction = layer.forward_direction
    index = memory_index(direction)
    first = tuple(s.requires_grad_() for s in layer.initial_state(inputs[0]))
    with torch.enable_grad():
        memory = [state[index] for state in unroll(direction, inputs, first)]
    v = torch.ones(memory[0].shape[1:]) if probe == "ones" else _random_signs(memory[0].shape[1:])
    for t in steps:
        sequences = torch.arange(len(ends)) if t is None else (ends >= t).nonzero().squeeze(1)
        s_t = torch.stack([memory[int(ends[i])][i] for i in sequences]) if t is None else memory[t][sequences]
        (gradient,) = torch.autograd.grad(s_t, first[index], v.to(s_t).expand_as(s_t), retain_graph=True)
        yield float(gradient.detach()[sequences].double().abs().mean())


def _random_signs(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).sign()


@dataclass(frozen=True)
class Gates(Result):
    """norm: (layer, weights, step), the mean over sequences of |d(v^T s_t)/dW|, in units of s per unit of W.

    W is one gate's block of one map, "input z" or "recurrent z". v has random signs and length 1.
    """

    norm: Array

    paper = "chen"
    section = "section 5.2, eq. 5.1-5.9"

    @property
    def lines(self) -> list[str]:
        final = zip(self.norm.values[0, :, -1], self.norm.axis("weights").ticks, strict=True)
        texts = [f"{name} {value:.3g}" for value, name in sorted(final, reverse=True)]
        return [f"Layer 1 at the last step: {', '.join(texts)}."]


@requires_recurrent
def gates(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
    points: int = GATE_POINTS,
) -> Gates:
    """Compute the norms of every gate at up to `points` steps, at most as many as the shortest sequence has.

    The blocks of a map with as many rows as the input map are named by the cell's gates, those of other maps are
    numbered. Raises RequestError for bidirectional networks.
    """
    require_one_direction(network.config)
    shortest = x.shape[1] if lengths is None else int(lengths.min())
    steps = evenly_spread(shortest, points)
    rows = [
        _gate_norms(Node(layer.forward_direction), inputs[:shortest], layer.initial_state(inputs[0]), set(steps))
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(rows[-1])
    values = np.array([[row[name] for name in names] for row in rows])
    axes = (Axis.counted("layer", len(rows)), Axis("weights", names), Axis("step", tuple(steps)))
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Gates(setting, Array(values, axes, "|ds_t/dW|", log=True))


def _gate_norms(node: Node, inputs: Tensor, start: State, steps: set[int]) -> dict[str, list[float]]:
    """Return the norms of each block of weights at `steps`, the mean over the batch. inputs: (time, batch, channels, ...).

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
    v = _random_signs(shape) / shape.numel() ** 0.5
    norms: dict[str, list[float]] = defaultdict(list)
    for t, x in enumerate(inputs.unbind(0), start=1):
        state = vmap(step)(weights, x.unsqueeze(1), state)
        if t in steps:
            s_t = state[memory]
            errors = v.to(s_t).expand_as(s_t)
            gradients = torch.autograd.grad(
                s_t, list(matrices.values()), errors, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for name, gradient in zip(matrices, gradients, strict=True):
                for label, block in _blocks(node, name, gradient):
                    norms[label].append(float(block.flatten(1).double().norm(dim=1).mean()))
    return norms


def _blocks(node: Node, name: str, gradient: Tensor) -> list[tuple[str, Tensor]]:
    """Split a map's gradient, (batch, gates * units, in, ...), into its gates' blocks, each with a label."""
    projection = name.removeprefix("direction.").removeprefix("cell.").removesuffix(".weight")
    gates = node.direction.cell.inputs
    blocks = gradient.split(node.direction.units, 1)
    if len(blocks) == 1:
        return [(projection, gradient)]
    labels = gates if len(blocks) == len(gates) else range(1, len(blocks) + 1)
    return [(f"{projection} {label}", block) for label, block in zip(labels, blocks, strict=True)]


@dataclass(frozen=True)
class Dependency(Result):
    """What a network achieves when a share of the steps at one end, "last" or "first", is replaced.

    metric: (end, share), the accuracy as a fraction, or the squared error. loss: (end, share), the cross-entropy in nats,
    or the squared error.
    """

    metric: Array
    loss: Array

    paper = "chen"
    section = "sections 4.2.1 and 4.4.1"

    @property
    def lines(self) -> list[str]:
        unit, cases = self.metric.unit, [(end, share) for end in ("last", "first") for share in (0.3, 0.9)]
        texts = [
            f"{self.metric.at(end=end, share=share).values:.3g} without the {end} {share:.0%}" for end, share in cases
        ]
        whole = self.metric.at(end="last", share=0.0).values
        return [f"{unit[:1].upper()}{unit[1:]}: {whole:.3g} on whole sequences, {', '.join(texts)}."]


@requires_recurrent
@torch.no_grad()
def dependency(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    y: Tensor,  # targets as in evaluation.score
    lengths: Tensor | None = None,  # (batch,)
    target: Target = "class",
) -> Dependency:
    """Measure a network, in eval mode, on sequences of which a part is replaced.

    Words are replaced by "the", numbers by their mean over all steps and sequences. The thesis trains on altered
    sequences; this tests a network as it is. Raises RequestError if there is a target at every step.
    """
    if network.config.interface.readout == "every":
        name = network.config.name
        raise RequestError(f"{name} answers at every step, so that no answer depends on the whole sequence.")
    steps = torch.arange(x.shape[1])
    ends = sequence_lengths(x, lengths)[:, None]
    neutral = _neutral_step(network, x)
    values = np.empty((2, len(SHARES), 2))  # (end, share, metric or loss)
    for i, share in enumerate(SHARES):
        count = (share * ends).round()
        for j, replaced in enumerate(((steps >= ends - count) & (steps < ends), steps < count)):
            where = replaced.reshape(*replaced.shape, *[1] * (x.dim() - 2)).to(x.device)
            loss, metric, n = score(target, network(torch.where(where, neutral, x), lengths), y)
            values[j, i] = float(metric / n), float(loss / n)
    axes = (Axis("end", ("last", "first")), Axis("share", SHARES))
    setting = {"of": describe(network.config), "sequences": len(x)}
    metrics, losses = values[..., 0], values[..., 1]
    return Dependency(setting, Array(metrics, axes, TARGETS[target].title), Array(losses, axes, "loss"))


def _neutral_step(network: RecurrentNetwork, x: Tensor) -> Tensor:
    """Return one time step without information: a token, (), or the mean step, (*input)."""
    if network.embedding is None:
        return x.mean((0, 1))
    token = UNKNOWN if network.tokenizer is None else network.tokenizer.neutral_token
    return torch.tensor(token, dtype=x.dtype, device=x.device)
