"""The long-term dependency test: the accuracy when the end, or the beginning, of a sequence carries no information.

Chen 2022, sections 4.2.1 and 4.4.1.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.tokenizer import UNKNOWN
from ..errors import RequestError
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import TARGETS, Target
from ..training.evaluation import score
from .base import Array, Axis, Result, three_digits
from .subject import describe, requires_recurrent
from .unrolled import sequence_lengths

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


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
        whole = three_digits(float(self.metric.at(end="last", share=0.0).values))
        unit = self.metric.unit
        texts = [
            f"{three_digits(float(self.metric.at(end=end, share=share).values))} without the {end} {share:.0%}"
            for end in ("last", "first") for share in (0.3, 0.9)
        ]  # fmt: skip
        return [f"{unit[:1].upper()}{unit[1:]}: {whole} on whole sequences, {', '.join(texts)}."]


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
        raise RequestError(
            f"{network.config.name} answers at every step, so that no answer depends on the whole sequence."
        )
    steps = torch.arange(x.shape[1])
    ends = sequence_lengths(x, lengths)[:, None]
    neutral = _neutral_step(network, x)
    rows: list[list[tuple[float, float]]] = []
    for end in ("last", "first"):
        row = []
        for share in SHARES:
            count = (share * ends).round()
            replaced = (steps >= ends - count) & (steps < ends) if end == "last" else steps < count
            replaced = replaced.reshape(*replaced.shape, *[1] * (x.dim() - 2)).to(x.device)
            loss, metric, n = score(target, network(torch.where(replaced, neutral, x), lengths), y)
            row.append((float(metric / n), float(loss / n)))
        rows.append(row)
    values = np.array(rows)
    axes = (Axis("end", ("last", "first")), Axis("share", SHARES))
    setting = {"of": describe(network.config), "sequences": len(x)}
    metric_title = TARGETS[target].title
    return Dependency(setting, Array(values[..., 0], axes, metric_title), Array(values[..., 1], axes, "loss"))


def _neutral_step(network: RecurrentNetwork, x: Tensor) -> Tensor:
    """Return one time step without information: a token, (), or the mean step, (*input)."""
    if network.embedding is None:
        return x.mean((0, 1))
    token = UNKNOWN if network.tokenizer is None else network.tokenizer.neutral_token
    return torch.tensor(token, dtype=x.dtype, device=x.device)
