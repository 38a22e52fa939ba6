"""Average estimation error: how far the state is from its end, and how far it moves in a step.

"Overcoming the vanishing gradient problem in plain recurrent networks", eq. 1 and 3, Fig. 1 and 4.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .subject import describe, requires_recurrent
from .unrolled import sequence_lengths, valid_steps

AGAINST = ("last", "previous")


@dataclass(frozen=True)
class Estimation(Result):
    """Differences of a layer's outputs, over sequences and units, in the units of the activations.

    mean: (against, layer, step), E[h_t - h_T] ("last", eq. 1) and E[h_t - h_{t-1}] ("previous", eq. 3, with h_0 = 0).
    variance: (against, layer, step), of the same differences. With lengths, T is each sequence's own last step, and
    steps beyond it do not count.
    """

    mean: Array
    variance: Array

    paper = "rin"
    section = "eq. 1-3, Fig. 1 and 4"

    @property
    def lines(self) -> list[str]:
        lines = []
        for against, text in (("last", "h_t - h_T"), ("previous", "h_t - h_{t-1}")):
            mean, variance = (array.at(against=against).values for array in (self.mean, self.variance))
            bound, largest = three_digits(np.nanmax(np.abs(mean))), three_digits(np.nanmax(variance))
            lines.append(f"E[{text}] is within {bound} of zero; its variance is at most {largest}.")
        return lines


@requires_recurrent
@torch.no_grad()
def estimation(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    lengths: Tensor | None = None,  # (batch,)
) -> Estimation:
    """Compute the average estimation errors of every layer's outputs, in eval mode."""
    ends, valid = sequence_lengths(x, lengths) - 1, valid_steps(x, lengths)
    means, variances = [], []
    for outputs in network.features(x, lengths):
        h = outputs.double().cpu().flatten(2)  # (batch, time, units)
        last = h[torch.arange(len(h)), ends].unsqueeze(1)
        previous = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
        moments = [_moments(h - other, valid) for other in (last, previous)]
        means.append([mean for mean, _ in moments])
        variances.append([variance for _, variance in moments])
    axes = (Axis("against", AGAINST), Axis.counted("layer", len(means)), Axis.counted("step", x.shape[1]))
    setting = {"of": describe(network.config), "sequences": len(x)}
    return Estimation(setting, *(Array(np.array(values).swapaxes(0, 1), axes) for values in (means, variances)))


def _moments(
    difference: Tensor,  # (batch, time, units)
    valid: Tensor,  # (batch, time)
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance over the valid sequences and all units, (time,) each."""
    weights = valid.double().unsqueeze(2).expand_as(difference)
    n = weights.sum((0, 2))
    mean = (difference * weights).sum((0, 2)) / n
    variance = ((difference - mean[:, None]).square() * weights).sum((0, 2)) / n
    return mean.numpy(), variance.numpy()
