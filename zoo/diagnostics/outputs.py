"""Analyses of the layers' outputs: their distance to the last output, their distribution, and which gates saturate.

Average estimation error: "Overcoming the vanishing gradient problem in plain recurrent networks", eq. 1 and 3, Fig. 1
and 4. Histograms and saturation: Chen 2022, section 3.3, diagnostic C, Fig. 3.6 and 3.9, here for every layer of a
recurrent network.
"""

from collections import Counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..cells.base import State
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, histograms
from .subject import Inputs, Lengths, describe, layer_inputs, requires_recurrent, sequence_lengths, valid_steps

AGAINST = {"last": "h_t - h_T", "previous": "h_t - h_{t-1}"}
"""By name of the output that h_t is compared with: the difference."""
SQUASHING = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}
"""Functions that saturate, and the two values at which they saturate."""
NEAR = 0.05
"""A value is saturated if its distance to an end of the range is at most this fraction of the range."""


@requires_recurrent
@torch.no_grad()
def estimation(network: RecurrentNetwork, x: Inputs, lengths: Lengths = None) -> Result:
    """Compute the average estimation errors of every layer's outputs, in eval mode.

    The errors are differences of outputs, over sequences and units, in the units of the activations. mean: (against, layer,
    step), E[h_t - h_T] ("last", eq. 1) and E[h_t - h_{t-1}] ("previous", eq. 3, with h_0 = 0). variance: (against, layer,
    step), the variance of the same differences. With lengths, T is each sequence's own last step, and padding is left out.
    """
    ends, valid = sequence_lengths(x, lengths) - 1, valid_steps(x, lengths)
    moments = []
    for outputs in network.features(x, lengths):
        h = outputs.double().cpu().flatten(2)  # (batch, time, units)
        last = h[torch.arange(len(h)), ends].unsqueeze(1)
        previous = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
        moments.append([_moments(h - other, valid) for other in (last, previous)])
    axes = (Axis("against", tuple(AGAINST)), Axis.counted("layer", len(moments)), Axis.counted("step", x.shape[1]))
    mean, variance = np.array(moments).transpose(2, 1, 0, 3)
    lines = tuple(
        f"E[{text}] is within {np.nanmax(np.abs(m)):.3g} of zero; its variance is at most {np.nanmax(v):.3g}."
        for text, m, v in zip(AGAINST.values(), mean, variance, strict=True)
    )
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Result(setting, {"mean": Array(mean, axes), "variance": Array(variance, axes)}, lines)


def _moments(difference: Tensor, valid: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (mean, variance), (time,) each, of differences, (batch, time, units), over units and the valid sequences.

    valid: (batch, time), True within a sequence's length.
    """
    weights = valid.double().unsqueeze(2).expand_as(difference)
    n = weights.sum((0, 2))
    mean = (difference * weights).sum((0, 2)) / n
    variance = ((difference - mean[:, None]).square() * weights).sum((0, 2)) / n
    return mean.numpy(), variance.numpy()


class SquashingRecorder(TorchFunctionMode):
    """A context manager that keeps the results of all calls of sigmoid and tanh within its block, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").removesuffix("_")
        if name in SQUASHING and isinstance(result, Tensor):
            self.calls.append((name, result))
        return result


@requires_recurrent
@torch.no_grad()
def saturation(network: RecurrentNetwork, x: Inputs, lengths: Lengths = None, bins: int = 40) -> Result:
    """Compute histograms of the outputs, and how often gates saturate, over all steps of all sequences, in eval mode.

    outputs: (layer, from), the share of hidden outputs in each bin of equal width; `from` is the bin's left edge.
    saturated: (layer, function), the share of the values of each sigmoid and tanh whose distance to an end of the function's
    range is at most 5 % of that range. Functions are numbered in the order of their calls in a step, such as `1 sigmoid`; the
    names of functions of the input alone begin with x. Padding is left out.

    In a bidirectional network, the functions are those of the forward direction, the outputs those of both directions.
    """
    valid = valid_steps(x, lengths)
    outputs = [h.cpu()[valid].flatten() for h in network.features(x, lengths)]
    shares, edges = histograms([h.float().numpy() for h in outputs], bins, (-1.0, 1.0))
    functions = [
        _function_shares(layer.forward_direction, inputs, layer.forward_direction.zero_states(inputs[0]), valid)
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True)
    ]
    names = tuple(functions[-1])
    table = np.array([[layer.get(name, np.nan) for name in names] for layer in functions])
    layers = Axis.counted("layer", len(outputs))
    arrays = {
        "outputs": Array(shares, (layers, edges), "hidden output"),
        "saturated": Array(table.reshape(len(outputs), len(names)), (layers, Axis("function", names))),
    }
    texts = (
        [f"{name} {100 * share:.3g} %" for name, share in zip(names, np.nanmean(table, 0), strict=True)]
        if names
        else []
    )
    line = f"Saturated, mean over the layers: {', '.join(texts)}." if texts else "Nothing in its steps saturates."
    return Result({"of": describe(network.config), "sequences": len(x)}, arrays, (line,))


def _function_shares(direction: Direction, inputs: Tensor, state: State, valid: Tensor) -> dict[str, float]:
    """Return {name of a function: share of its values that are saturated}. The names are those of `saturation`.

    inputs: (time, batch, channels, ...). state: of one direction or both, of which the first is used. valid: (batch, time).
    """
    saturated: Counter[str] = Counter()
    values_seen: Counter[str] = Counter()

    def count(prefix: str, calls: list[tuple[str, Tensor]], valid: Tensor) -> None:
        for i, (name, values) in enumerate(calls, start=1):
            if values.shape[: valid.dim()] != valid.shape:  # of a parameter
                continue
            low, high = SQUASHING[name]
            margin = NEAR * (high - low)
            counted = values[valid.to(values.device)]
            saturated[f"{prefix}{i} {name}"] += int(((counted < low + margin) | (counted > high - margin)).sum())
            values_seen[f"{prefix}{i} {name}"] += counted.numel()

    state = state[: len(direction.cell.states)]
    with SquashingRecorder() as recorder:
        prepared = direction.prepare(inputs)  # all steps at once
    count("x", recorder.calls, valid.T)
    with direction.hold_projections(inputs[0]):  # so that functions that make a matrix are not recorded
        for t, x_t in enumerate(zip(*(part.unbind(0) for part in prepared), strict=True)):
            with SquashingRecorder() as recorder:
                state = direction.step(x_t, state)
            count("", recorder.calls, valid[:, t])
    return {name: saturated[name] / max(total, 1) for name, total in values_seen.items()}
