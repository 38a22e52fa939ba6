"""Histograms of hidden outputs, and the share of a cell's squashing functions that are saturated.

Chen 2022, section 3.3, diagnostic C, Fig. 3.6 and 3.9; here for every layer of a recurrent network.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..cells.base import State
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, histograms, three_digits
from .subject import describe, requires_recurrent
from .unrolled import layer_inputs, valid_steps

BINS = 40
SQUASHING = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
"""Functions that saturate, and the two values at which they do."""
NEAR = 0.05
"""A value is saturated if it is within this part of the range of either end."""


@dataclass(frozen=True)
class Saturation(Result):
    """Shares of the values at all steps. Pure numbers.

    outputs: (layer, from), the share of hidden outputs in each bin of equal width, whose left edge is `from`.
    saturated: (layer, function), the share of values of each squashing function within 5 % of its range of either end.
    Functions are numbered in the order in which a step calls them; those of the input alone begin with x.
    """

    outputs: Array
    saturated: Array

    paper = "chen"
    section = "section 3.3, Fig. 3.6 and 3.9"

    @property
    def lines(self) -> list[str]:
        if not self.saturated.values.size:
            return ["Nothing in its steps saturates."]
        names, shares = self.saturated.axis("function").ticks, np.nanmean(self.saturated.values, 0)
        texts = [f"{name} {three_digits(100 * share)} %" for name, share in zip(names, shares, strict=True)]
        return [f"Saturated, mean over the layers: {', '.join(texts)}."]


class SquashingRecorder(TorchFunctionMode):
    """While entered, keep the result of every sigmoid and tanh, in the order of the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").removesuffix("_")
        if name in SQUASHING and isinstance(result, Tensor):
            self.calls.append((name, result))
        return result


class ShareCounter:
    """Counts values, and how many of them are saturated."""

    def __init__(self) -> None:
        self.saturated = self.total = 0

    def add(self, function: str, values: Tensor) -> None:
        low, high = SQUASHING[function]
        margin = NEAR * (high - low)
        self.saturated += int(((values < low + margin) | (values > high - margin)).sum())
        self.total += values.numel()

    @property
    def share(self) -> float:
        return self.saturated / max(self.total, 1)


@requires_recurrent
@torch.no_grad()
def saturation(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
    bins: int = BINS,
) -> Saturation:
    """Compute the shares over all steps of all sequences, in eval mode; padding is left out.

    Of a bidirectional network, the functions are those of the forward direction, the outputs those of both.
    """
    valid = valid_steps(x, lengths)
    outputs = [h.cpu()[valid].flatten() for h in network.features(x, lengths)]
    shares, edges = histograms([h.float().numpy() for h in outputs], bins, (-1.0, 1.0))
    functions = [
        _function_shares(layer.forward_direction, inputs, layer.initial_state(inputs[0]), valid)
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(functions[-1])
    table = np.array([[layer.get(name, np.nan) for name in names] for layer in functions])
    layers = Axis.counted("layer", len(outputs))
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Saturation(
        setting, Array(shares, (layers, edges), "hidden output"),
        Array(table.reshape(len(outputs), len(names)), (layers, Axis("function", names))),
    )  # fmt: skip


def _function_shares(
    direction: Direction,
    inputs: Tensor,  # (time, batch, channels, ...)
    state: State,  # (batch, channels, ...) each; of two directions, the forward one's come first
    valid: Tensor,  # (batch, time)
) -> dict[str, float]:
    """Return the saturated share of each function: `1 sigmoid`, `2 tanh`, ..., and `x1 tanh` of the input alone."""
    counters: dict[str, ShareCounter] = defaultdict(ShareCounter)
    state = state[: len(direction.cell.states)]
    with SquashingRecorder() as recorder:
        prepared = direction.cell.prepare(direction.input(inputs))  # all steps at once
    for i, (name, values) in enumerate(recorder.calls, start=1):
        counters[f"x{i} {name}"].add(name, values[valid.T.to(values.device)])
    with direction.hold_projections(inputs[0]):  # so that functions that make a matrix are not recorded
        for t, x_t in enumerate(zip(*(part.unbind(0) for part in prepared), strict=True)):
            with SquashingRecorder() as recorder:
                state = direction.step(x_t, state)
            for i, (name, values) in enumerate(recorder.calls, start=1):
                counters[f"{i} {name}"].add(name, values[valid[:, t].to(values.device)])
    return {name: counter.share for name, counter in counters.items()}
