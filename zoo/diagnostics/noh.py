"""Noh's indicator: how much the state at step t depends on the first one. Chen 2022, sections 4.2.2 and 5.1."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..checkpoints import results
from ..errors import RequestError
from ..networks.layer import Layer
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from .base import Array, Axis, Result, three_digits
from .ensemble import require_one_direction
from .subject import describe, requires_recurrent
from .unrolled import evenly_spread, layer_inputs, memory_index, sequence_lengths, unroll

POINTS = 60
"""Time steps analysed, evenly spread over longer sequences."""
Probe = Literal["ones", "signs"]


@dataclass(frozen=True)
class Noh(Result):
    """The memory s is c if the cell has one, else h. Pure numbers; NaN if every derivative is zero.

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
            for layer, row in zip(self.indicator.axis("layer").ticks, self.indicator.values, strict=True)
        ]


def _power(logarithm: float) -> str:
    return three_digits(10.0**logarithm) if np.isfinite(logarithm) else "0"


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
            for layer, row in zip(self.indicator.axis("layer").ticks, self.indicator.values, strict=True)
        ]


def history(folder: Path) -> History:
    """Read what `rnnzoo train --diagnose noh` recorded in the folder of a run; raise RequestError if it recorded nothing."""
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
    means = _mean_derivatives(network, x, lengths, probe, [*steps, None])
    rows = np.array([[_log10(mean) for mean in layer] for layer in means])
    layers = Axis.counted("layer", len(rows))
    unit = "log10 |ds_t/ds_0|"
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
    logs = [_log10(layer[-1]) for layer in _mean_derivatives(network, x, lengths, "ones", [None])]
    return [value if np.isfinite(value) else None for value in logs]


def _log10(value: float) -> float:
    return float(np.log10(value)) if value > 0 else float("nan")


def _mean_derivatives(
    network: RecurrentNetwork, x: Tensor, lengths: Tensor | None, probe: Probe, steps: Sequence[int | None]
) -> list[list[float]]:
    """Return the mean |v^T ds_t/ds_0| of every layer at every step t; None is each sequence's own last step."""
    require_one_direction(network.config)
    ends = sequence_lengths(x, lengths)
    return [
        _layer_derivatives(layer, inputs, ends, probe, steps)
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]


def _layer_derivatives(
    layer: Layer,
    inputs: Tensor,  # (time, batch, channels, ...)
    ends: Tensor,  # (batch,)
    probe: Probe,
    steps: Sequence[int | None],
) -> list[float]:
    direction = layer.forward_direction
    index = memory_index(direction)
    first = tuple(s.requires_grad_() for s in layer.initial_state(inputs[0]))
    with torch.enable_grad():
        memory = [state[index] for state in unroll(direction, inputs, first)]
    v = torch.ones(memory[0].shape[1:])
    if probe == "signs":
        v = torch.randn(memory[0].shape[1:], generator=torch.Generator().manual_seed(0)).sign()
    means = []
    for t in steps:
        sequences = torch.arange(len(ends)) if t is None else (ends >= t).nonzero().squeeze(1)
        s_t = torch.stack([memory[int(ends[i])][i] for i in sequences]) if t is None else memory[t][sequences]
        (gradient,) = torch.autograd.grad(s_t, first[index], v.to(s_t).expand_as(s_t), retain_graph=True)
        means.append(float(gradient.detach()[sequences].double().abs().mean()))
    return means
