"""Where activations lie: histograms of hidden outputs, and how many of a cell's squashing functions are saturated.
Chen 2022, section 3.3, diagnostic C, Fig. 3.6 and 3.9; here of every layer of a recurrent network."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, histograms, three_digits
from .subject import described, of_sequences
from .unrolled import inside, layer_inputs

BINS = 40
SQUASHING = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
"""Functions that saturate, and the two values they saturate at."""
NEAR = 0.05
"""Saturated: within this part of the range of either end."""


@dataclass(frozen=True)
class Saturation(Result):
    """outputs: (layer, from), the share of hidden outputs in each bin, `from` its left edge, all of one width; saturated:
    (layer, function), the share of values of each squashing function, in the order in which a step calls them, that lie
    within 5 % of its range of either end. Pure numbers."""

    outputs: Array
    saturated: Array

    paper = "chen"
    section = "section 3.3, Fig. 3.6 and 3.9"

    @property
    def lines(self) -> list[str]:
        if not self.saturated.values.size:
            return ["Nothing in its steps saturates."]
        names, shares = self.saturated.axis("function").ticks, np.nanmean(self.saturated.values, 0)
        return [
            "Saturated, mean over the layers: "
            + ", ".join(f"{name} {three_digits(100 * share)} %" for name, share in zip(names, shares, strict=True)) + "."
        ]  # fmt: skip


class Watch(TorchFunctionMode):
    """Keeps, while it is entered, the results of every sigmoid and tanh by the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").removesuffix("_")
        if name in SQUASHING and isinstance(out, Tensor):
            self.found.append((name, out))
        return out


@of_sequences
@torch.no_grad()
def saturation(network: RecurrentNetwork, x: Tensor, lengths: Tensor | None = None, bins: int = BINS) -> Saturation:
    """Histograms over all steps and sequences of x: (batch, time, *input), in eval mode; with lengths, padding is left out.

    Of a bidirectional network, the forward direction's functions, and outputs of both.
    """
    counted = inside(x, lengths)
    outputs = [h.cpu()[counted].flatten() for h in network.features(x, lengths)]
    shares, edges = histograms([h.float().numpy() for h in outputs], bins, (-1.0, 1.0))
    functions = [
        _functions(layer.forward_direction, below, layer.initial_state(below[0]), counted)
        for layer, below in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(functions[-1])
    table = np.array([[own.get(name, np.nan) for name in names] for own in functions])
    depth = Axis.counted("layer", len(outputs))
    setting = {"of": described(network.config), "sequences": len(x)}
    return Saturation(
        setting, Array(shares, (depth, edges), "hidden output"),
        Array(table.reshape(len(outputs), len(names)), (depth, Axis("function", names))),
    )  # fmt: skip


def _functions(way: Any, below: Tensor, state: Any, counted: Tensor) -> dict[str, float]:
    """Share of saturated values of each function of a step: `1 sigmoid`, `2 tanh`, ... and `x tanh` of the input alone."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    state = state[: len(way.cell.states)]
    with Watch() as watch:
        prepared = way.cell.prepare(way.input(below))  # all steps at once
    for i, (name, out) in enumerate(watch.found, start=1):
        _count(sums[f"x{i} {name}"], name, out[counted.T.to(out.device)])
    steps = zip(*(part.unbind(0) for part in prepared), strict=True)
    with way.hold_projections(below[0]):  # what makes a matrix of a weight squashes no activation
        for t, step in enumerate(steps):
            with Watch() as watch:
                state = way.step(step, state)
            for i, (name, out) in enumerate(watch.found, start=1):
                _count(sums[f"{i} {name}"], name, out[counted[:, t].to(out.device)])
    return {name: hit / max(total, 1) for name, (hit, total) in sums.items()}


def _count(sums: list[float], name: str, out: Tensor) -> None:
    low, high = SQUASHING[name]
    margin = NEAR * (high - low)
    sums[0] += float(((out < low + margin) | (out > high - margin)).sum())
    sums[1] += out.numel()
