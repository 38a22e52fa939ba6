"""Average estimation error: how far the state still has to go, and how far it moves: "Overcoming the vanishing gradient
problem in plain recurrent networks", eq. 1 and 3, Fig. 1 and 4."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..networks.recurrent import RecurrentNetwork
from .base import Array, Axis, Result, three_digits
from .subject import described, of_sequences
from .unrolled import ends, inside

AGAINST = ("last", "previous")


@dataclass(frozen=True)
class Estimation(Result):
    """mean: (against, layer, step), the average estimation error, E[h_t - h_T] ("last", eq. 1) and E[h_t - h_{t-1}]
    ("previous", eq. 3, from h_0 = 0), over sequences and units; variance: the same shape, of the same differences.

    In the units of the activations. With lengths, T is each sequence's own end and steps beyond it do not count.
    """

    mean: Array
    variance: Array

    paper = "rin"
    section = "eq. 1-3, Fig. 1 and 4"

    @property
    def lines(self) -> list[str]:
        found = []
        for against, text in (("last", "h_t - h_T"), ("previous", "h_t - h_{t-1}")):
            m, v = (a.at(against=against).values for a in (self.mean, self.variance))
            found.append(
                f"E[{text}] is within {three_digits(np.nanmax(np.abs(m)))} of zero; its variance is at most {three_digits(np.nanmax(v))}."
            )
        return found


@of_sequences
@torch.no_grad()
def estimation(network: RecurrentNetwork, x: Tensor, lengths: Tensor | None = None) -> Estimation:
    """Average estimation errors of every layer's outputs on x: (batch, time, *input), in eval mode."""
    last_steps, counted = ends(x, lengths) - 1, inside(x, lengths)
    means, variances = [], []
    for h in network.features(x, lengths):
        h = h.double().cpu().flatten(2)  # (batch, time, units)
        last = h[torch.arange(len(h)), last_steps].unsqueeze(1)
        before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
        both = [_moments(h - other, counted) for other in (last, before)]
        means.append([m for m, _ in both])
        variances.append([v for _, v in both])
    axes = (Axis("against", AGAINST), Axis.counted("layer", len(means)), Axis.counted("step", x.shape[1]))
    setting = {"of": described(network.config), "sequences": len(x)}
    return Estimation(setting, *(Array(np.array(values).swapaxes(0, 1), axes) for values in (means, variances)))


def _moments(difference: Tensor, counted: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over the sequences that count and all units, at every step."""
    weights = counted.double().unsqueeze(2).expand_as(difference)
    n = weights.sum((0, 2))
    mean = (difference * weights).sum((0, 2)) / n
    variance = ((difference - mean[:, None]).square() * weights).sum((0, 2)) / n
    return mean.numpy(), variance.numpy()
