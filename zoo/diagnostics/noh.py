"""Noh's indicator: what the state at step t still owes to the first one. Chen 2022, sections 4.2.2 and 5.1, Fig. 5.1-5.3."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..checkpoints import results
from ..errors import RequestError
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from .base import Array, Axis, Result, three_digits
from .subject import described, of_sequences
from .unrolled import carrier, ends, layer_inputs, unrolled

POINTS = 60
"""Steps that are looked at, of a longer sequence evenly spread."""
Probe = Literal["ones", "signs"]


@dataclass(frozen=True)
class Noh(Result):
    """indicator: (layer, step), log10 of the mean absolute value of v^T ds_t/ds_0 over units and the sequences that have a
    step t; s is the memory, c where the cell has one, else h. end: (layer,), the same of every sequence's own last step.
    Pure numbers; NaN where not one derivative differs from zero."""

    indicator: Array
    end: Array

    paper = "chen"
    section = "sections 4.2.2 and 5.1, Fig. 5.1-5.3"

    @property
    def lines(self) -> list[str]:
        steps = self.indicator.axis("step").ticks
        return [
            f"Layer {layer}: the mean |ds_t/ds_0| is {_power(row[0])} at step {steps[0]} and {_power(row[-1])} at step {steps[-1]}."
            for layer, row in zip(self.indicator.axis("layer").ticks, self.indicator.values, strict=True)
        ]


def _power(logarithm: float) -> str:
    return three_digits(10.0**logarithm) if np.isfinite(logarithm) else "0"


@dataclass(frozen=True)
class History(Result):
    """indicator: (layer, epoch), the indicator at the last step after each epoch of a run, as Noh has it; metric: (epoch,),
    the metric on the validation data, an accuracy being a fraction."""

    indicator: Array
    metric: Array

    paper = "chen"
    section = "section 5.1, Fig. 5.1 and 5.2"

    @property
    def lines(self) -> list[str]:
        return [
            f"Layer {layer}: {_power(row[0])} after the first epoch, {_power(row[-1])} after the last, median {_power(float(np.nanmedian(row)))}."
            for layer, row in zip(self.indicator.axis("layer").ticks, self.indicator.values, strict=True)
        ]


def history(folder: Path) -> History:
    """What a run of `rnnzoo train --diagnose noh` recorded, of its folder. Raises RequestError if it recorded nothing."""
    training = results.read(folder).training
    if training is None or not training.history or not all("noh" in row.diagnostics for row in training.history):
        raise RequestError(f"{folder} has no run that recorded noh in every epoch: rnnzoo train NAME --diagnose noh.")
    rows = np.array([[np.nan if v is None else v for v in row.diagnostics["noh"]] for row in training.history]).T
    axes = (Axis.counted("layer", len(rows)), Axis("epoch", tuple(row.epoch for row in training.history)))
    setting = {"of": training.model, "recipe": training.recipe_name, "seed": training.recipe.seed, "v": "ones"}
    metric = np.array([row.validation_metric for row in training.history])
    return History(setting, Array(rows, axes, "log10 |ds_T/ds_0|"), Array(metric, axes[1:], training.metric))


@of_sequences
def noh(network: RecurrentNetwork, x: Tensor, lengths: Tensor | None = None, probe: Probe = "ones", points: int = POINTS) -> Noh:
    """The indicator of every layer at up to `points` steps of x: (batch, time, *input), in eval mode.

    probe: v. "ones" is what the thesis computes, the gradient of the sum of s_t; a sum lets derivatives of different signs
    cancel, so "signs", fixed random ones, tells whether that matters. Raises RequestError for bidirectional networks.
    """
    steps = x.shape[1] if lengths is None else int(lengths.max())
    at = sorted({int(t) for t in np.linspace(1, steps, min(points, steps)).round()})
    rows = np.array([[_log(value) for value in row] for row in _values(network, x, lengths, probe, [*at, None])])
    layers = Axis.counted("layer", len(rows))
    unit = "log10 |ds_t/ds_0|"
    setting = {"of": described(network.config), "sequences": len(x), "v": probe}
    return Noh(
        setting, Array(rows[:, :-1], (layers, Axis("step", tuple(at))), unit), Array(rows[:, -1], (layers,), unit)
    )


@of_sequences
def per_epoch(network: RecurrentNetwork, x: Tensor, y: Tensor, lengths: Tensor | None, target: Target) -> list[float | None]:
    """The indicator at each sequence's end, of each layer, for the history of a training run; None for a zero."""
    values = [_log(row[-1]) for row in _values(network, x, lengths, "ones", [None])]
    return [value if np.isfinite(value) else None for value in values]


def _log(value: float) -> float:
    return float(np.log10(value)) if value > 0 else float("nan")


def _values(
    network: RecurrentNetwork, x: Tensor, lengths: Tensor | None, probe: Probe, at: Sequence[int | None]
) -> list[list[float]]:
    """Means of |v^T ds_t/ds_0|, a row a layer, for every t asked for; None is each sequence's own last step."""
    if network.config.architecture.bidirectional:
        raise RequestError(f"{network.config.name} is bidirectional; the indicator is of networks of one direction.")
    last = ends(x, lengths)
    rows = []
    for layer, below in zip(network.layers, layer_inputs(network, x, lengths), strict=True):
        way = layer.forward_direction
        place = carrier(way)
        first = tuple(s.requires_grad_() for s in layer.initial_state(below[0]))
        with torch.enable_grad():
            memory = [state[place] for state in unrolled(way, below, first)]
        v = torch.ones(memory[0].shape[1:])
        if probe == "signs":
            v = torch.randn(memory[0].shape[1:], generator=torch.Generator().manual_seed(0)).sign()
        row = []
        for t in at:
            chosen = torch.arange(len(x)) if t is None else (last >= t).nonzero().squeeze(1)
            wanted = torch.stack([memory[int(last[i])][i] for i in chosen]) if t is None else memory[t][chosen]
            (g,) = torch.autograd.grad(wanted, first[place], v.to(wanted).expand_as(wanted), retain_graph=True)
            row.append(float(g.detach()[chosen].double().abs().mean()))
        rows.append(row)
    return rows
