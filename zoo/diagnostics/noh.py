"""Measures how much the memory depends on its initial value, on each gate's weights, and on the ends of the sequence.

All are from Chen 2022. Noh's indicator: sections 4.2.2 and 5.1. Gradients of gates: section 5.2, after Rehmer & Kroll 2020.
The long-term dependency test: sections 4.2.1 and 4.4.1. The memory s of a cell is its state c or the corresponding state.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from ..networks.base import refuse_computed_weights
from ..networks.layer import Layer
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import TARGETS, Target
from ..training.evaluation import score
from ..utils.shapes import unsqueeze_to
from ..utils.text import capitalised
from .base import Array, Axis, Result
from .ensemble import Node, require_one_direction
from .subject import (
    Inputs,
    Lengths,
    Targets,
    block_labels,
    describe,
    evenly_spread,
    layer_inputs,
    memory_index,
    require_finite,
    requires_recurrent,
    sequence_lengths,
    unroll,
)  # fmt: skip

POINTS = 60
"""Maximum number of time steps at which the indicator is computed, evenly spread over longer sequences."""
GATE_POINTS = 20
"""Maximum number of time steps at which the gradients of gates are computed, evenly spread over longer sequences."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
"""Shares of a sequence's steps that the dependency test replaces."""
LARGEST = 308.0
"""The indicator where a derivative overflows: about log10 of the largest number in float64."""
Probe = Literal["ones", "signs"]


def _power(logarithm: float) -> str:
    return f"{10.0**logarithm:.3g}" if np.isfinite(logarithm) else "0"


def history(folder: Path) -> Result:
    """Return the result that `rnnzoo train --diagnose noh` recorded in the folder of a training run.

    indicator: (layer, epoch), the array `end` of the result of `noh`, after each epoch. metric: (epoch,), the metric on the
    validation data; an accuracy is a fraction. Raises RequestError if the run did not record noh in every epoch.
    """
    training = results.read(folder).training
    if training is None or not training.history or not all("noh" in epoch.diagnostics for epoch in training.history):
        raise RequestError(
            f"{folder} has no run that recorded noh in every epoch. To record it: rnnzoo train NAME --diagnose noh"
        )
    epochs = training.history
    indicator = np.array([[np.nan if v is None else v for v in epoch.diagnostics["noh"]] for epoch in epochs]).T
    axes = (Axis.counted("layer", len(indicator)), Axis("epoch", tuple(epoch.epoch for epoch in epochs)))
    arrays = {
        "indicator": Array(indicator, axes, "log10 |ds_T/ds_0|"),
        "metric": Array(np.array([epoch.validation_metric for epoch in epochs]), axes[1:], training.metric),
    }
    lines = tuple(
        f"Layer {layer}: {_power(row[0])} after the first epoch, {_power(row[-1])} after the last, "
        f"median {_power(float(np.nanmedian(row)))}."
        for layer, row in enumerate(indicator, start=1)
    )
    setting = {"of": training.model, "recipe": training.recipe_name, "seed": training.recipe.seed, "v": "ones"}
    return Result(setting, arrays, lines)


@requires_recurrent
def noh(
    network: RecurrentNetwork, x: Inputs, lengths: Lengths = None, probe: Probe = "ones", points: int = POINTS
) -> Result:
    """Compute Noh's indicator of every layer at up to `points` steps: how much the memory s_t depends on s_0, in eval mode.

    The memory is the cell's state c or, in a cell without c, the corresponding state, such as h.

    probe: the vector v. "ones" is the choice of Chen 2022: the gradient of the sum of s_t, in which derivatives of opposite
    signs cancel. "signs" are random signs from a fixed seed. Raises RequestError for bidirectional networks.

    indicator: (layer, step), log10 of the mean of |v^T ds_t/ds_0| over units and over the sequences that have a step t; NaN
    if every derivative is zero, and LARGEST if one overflows. end: (layer,), the indicator at each sequence's own last step.
    """
    longest = x.shape[1] if lengths is None else int(lengths.max())
    steps = evenly_spread(longest, points)
    rows = np.array(_log_derivatives(network, x, lengths, probe, [*steps, None]))
    layers, unit = Axis.counted("layer", len(rows)), "log10 |ds_t/ds_0|"
    arrays = {
        "indicator": Array(rows[:, :-1], (layers, Axis("step", tuple(steps))), unit),
        "end": Array(rows[:, -1], (layers,), unit),
    }
    lines = tuple(
        f"Layer {layer}: the mean |ds_t/ds_0| is {_power(row[0])} at step {steps[0]} and {_power(row[-2])} at step {steps[-1]}."
        for layer, row in enumerate(rows, start=1)
    )
    return Result({"of": describe(network.config), "sequences": len(x), "v": probe}, arrays, lines)


@requires_recurrent
def per_epoch(network: RecurrentNetwork, x: Inputs, y: Targets, lengths: Lengths, target: Target) -> list[float]:
    """Return Noh's indicator at each sequence's last step, `end` of `noh`, for each layer; y and target are not used."""
    return [layer[-1] for layer in _log_derivatives(network, x, lengths, "ones", [None])]


@torch.enable_grad()
def _log_derivatives(
    network: RecurrentNetwork, x: Inputs, lengths: Lengths, probe: Probe, steps: Sequence[int | None]
) -> list[list[float]]:
    """Return log10 of the mean |v^T ds_t/ds_0|, [layer][step], for each t of `steps`, where None is each sequence's last step.

    s_t is the memory after step t, and v the vector that `probe` names (see `noh`).
    """
    require_one_direction(network.config)
    ends = sequence_lengths(x, lengths)
    pairs = zip(network.layers, layer_inputs(network, x, lengths, may_explode=True), strict=True)
    means = [list(_derivatives(layer, inputs, ends, probe, steps)) for layer, inputs in pairs]
    return [[_logarithm(mean) for mean in row] for row in means]


def _logarithm(mean: float) -> float:
    if mean == 0:
        return math.nan
    # of finite weights, a NaN is a difference of infinite products
    return math.log10(mean) if math.isfinite(mean) else LARGEST


def _derivatives(
    layer: Layer, inputs: Tensor, ends: Tensor, probe: Probe, steps: Sequence[int | None]
) -> Iterator[float]:
    """Yield the mean |v^T ds_t/ds_0| of a layer (see `_log_derivatives`) for each t of `steps`.

    Where t is None, each sequence's t is its length in `ends`, (batch,). inputs: of the layer, (time, batch, ...).
    """
    direction = layer.forward_direction
    index = memory_index(direction)
    first = tuple(s.requires_grad_() for s in direction.zero_states(inputs[0]))
    memory = [state[index] for state in unroll(direction, inputs, first)]
    v = torch.ones(memory[0].shape[1:]) if probe == "ones" else _random_signs(memory[0].shape[1:])
    for t in steps:
        sequences = torch.arange(len(ends)) if t is None else (ends >= t).nonzero().squeeze(1)
        s_t = torch.stack([memory[int(ends[i])][i] for i in sequences]) if t is None else memory[t][sequences]
        (gradient,) = torch.autograd.grad(s_t, first[index], v.to(s_t).expand_as(s_t), retain_graph=True)
        yield float(gradient.detach()[sequences].double().abs().mean())


def _random_signs(shape: torch.Size) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).sign()


@requires_recurrent
def gates(network: RecurrentNetwork, x: Inputs, lengths: Lengths = None, points: int = GATE_POINTS) -> Result:
    """Compute how much the memory s_t (see `noh`) depends on each gate's weights, at up to `points` steps.

    The source is Chen 2022, section 5.2, eq. 5.1-5.9.

    norm: (layer, weights, step), the mean over sequences of |d(v^T s_t)/dW|, in units of s per unit of W. W is the block of
    one gate in the input or the recurrent weights, such as "input z". v has random signs and norm 1. Steps beyond the end
    of the shortest sequence are left out.

    Blocks are named by the cell's gates if there are as many blocks as gates, else numbered. Raises RequestError for
    bidirectional networks.
    """
    require_one_direction(network.config)
    refuse_computed_weights(network)  # their gradients would be those of other tensors
    shortest = x.shape[1] if lengths is None else int(lengths.min())
    steps = evenly_spread(shortest, points)
    rows = [
        _gate_norms(
            Node(layer.forward_direction), inputs[:shortest], layer.forward_direction.zero_states(inputs[0]), set(steps)
        )
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(rows[-1])
    values = np.array([[row[name] for name in names] for row in rows])
    axes = (Axis.counted("layer", len(rows)), Axis("weights", names), Axis("step", tuple(steps)))
    final = sorted(zip(values[0, :, -1], names, strict=True), reverse=True)
    line = f"Layer 1 at the last step: {', '.join(f'{name} {value:.3g}' for value, name in final)}."
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Result(setting, {"norm": Array(values, axes, "|ds_t/dW|", log=True)}, (line,))


@torch.enable_grad()
def _gate_norms(node: Node, inputs: Tensor, start: State, steps: set[int]) -> dict[str, list[float]]:
    """Return {label of a block of weights: its gradient norms at `steps`, averaged over the batch}. See `gates`.

    inputs: of the layer, (time, batch, channels, ...). start: the initial states.

    Every sequence has its own copy of the weights, so that one backward pass computes each sequence's gradient.
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
    """Return (label, block) for each gate's block of `gradient`, (batch, gates * units, in, ...).

    name: of the weight in `node` of which this is the gradient.
    """
    projection = name.removeprefix("direction.").removeprefix("cell.").removesuffix(".weight")
    rows = node.direction.input_channels
    blocks = gradient.split(list(rows) if gradient.shape[1] == sum(rows) else node.direction.units, 1)
    if len(blocks) == 1:
        return [(projection, gradient)]
    labels = block_labels(node.direction.cell, len(blocks))
    return [(f"{projection} {label}", block) for label, block in zip(labels, blocks, strict=True)]


@requires_recurrent
@torch.no_grad()
def dependency(
    network: RecurrentNetwork, x: Inputs, y: Targets, lengths: Lengths = None, target: Target = "class"
) -> Result:
    """Measure a network's metric, in eval mode, when a share of the steps at one end of each sequence is replaced.

    Words are replaced by "the", numbers by their mean over all steps and sequences. Chen 2022 trains on altered sequences
    (sections 4.2.1 and 4.4.1); this function does not train the network. Raises RequestError if there is a target at every
    step.

    metric: (end, share), that of the target, such as the accuracy as a fraction; end: "last" or "first". loss: (end, share),
    the cross-entropy in nats, or the squared error.
    """
    if network.config.interface.readout == "every":
        raise RequestError(
            f"{network.config.name} answers at every step, but this analysis takes networks with one answer per sequence. "
            "Choose one, such as gru-1x128-mnist-rows."
        )
    steps = torch.arange(x.shape[1])
    ends = sequence_lengths(x, lengths)[:, None]
    neutral = _neutral_step(network, x, (steps < ends).to(x.device))
    values = np.empty((2, len(SHARES), 2))  # (end, share, metric or loss)
    for i, share in enumerate(SHARES):
        count = (share * ends).round()
        for j, replaced in enumerate(((steps >= ends - count) & (steps < ends), steps < count)):
            where = unsqueeze_to(replaced, x.dim()).to(x.device)
            outputs = network(torch.where(where, neutral, x), lengths)
            require_finite(outputs, network, "its outputs on these sequences")
            total, correct, n = score(target, outputs, y)
            values[j, i] = TARGETS[target].of_mean(float(correct / n)), float(total / n)
    axes, unit = (Axis("end", ("last", "first")), Axis("share", SHARES)), TARGETS[target].title
    metric, loss = Array(values[..., 0], axes, unit), Array(values[..., 1], axes, "loss")
    texts = [
        f"{metric.at(end=end, share=share).values:.3g} without the {end} {share:.0%}"
        for end in ("last", "first") for share in (0.3, 0.9)
    ]  # fmt: skip
    line = f"{capitalised(unit)}: {values[0, 0, 0]:.3g} on whole sequences, {', '.join(texts)}."
    return Result({"of": describe(network.config), "sequences": len(x)}, {"metric": metric, "loss": loss}, (line,))


def _neutral_step(network: RecurrentNetwork, x: Tensor, valid: Tensor) -> Tensor:
    """Return the time step that replaces others: the token of "the", (), or the mean of the valid steps of x, (*input).

    valid: False for padding, (batch, time).
    """
    if network.embedding is None:
        return x[valid].mean(0)
    token = UNKNOWN if network.tokenizer is None else network.tokenizer.neutral_token
    return torch.tensor(token, dtype=x.dtype, device=x.device)
