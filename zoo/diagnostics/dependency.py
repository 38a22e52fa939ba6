"""The long-term dependency test: what is left of a prediction when the end, or the beginning, of a sequence is replaced by
something that says nothing. Chen 2022, sections 4.2.1 and 4.4.1."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..checkpoints.tokenizer import UNKNOWN
from ..errors import RequestError
from ..networks.network import Network
from ..registry.metrics import TARGETS, Target
from ..training.evaluation import score
from .base import Array, Axis, Result, three_digits
from .subject import described, of_sequences
from .unrolled import ends

SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Dependency(Result):
    """metric: (end, share), the accuracy, as a fraction, or squared error when that share of the steps at one end, "last"
    or "first", is replaced; loss: the same shape, cross-entropy in nats or squared error."""

    metric: Array
    loss: Array

    paper = "chen"
    section = "sections 4.2.1 and 4.4.1"

    @property
    def lines(self) -> list[str]:
        whole = float(self.metric.at(end="last", share=0.0).values)
        unit = self.metric.unit
        texts = [
            f"{three_digits(float(self.metric.at(end=end, share=share).values))} without the {end} {share:.0%}"
            for end in ("last", "first") for share in (0.3, 0.9)
        ]  # fmt: skip
        return [f"{unit[:1].upper()}{unit[1:]}: {three_digits(whole)} on whole sequences, {', '.join(texts)}."]


@of_sequences
@torch.no_grad()
def dependency(
    network: Network, x: Tensor, y: Tensor, lengths: Tensor | None = None, target: Target = "class"
) -> Dependency:
    """How a trained network, in eval mode, does on x, (batch, time, *input) or tokens, with a part of each sequence replaced.

    Words are replaced by "the", numbers by their mean over all steps and sequences. Unlike the thesis, which trains on
    altered sequences, this asks a network as it is. Raises RequestError where there is a target at every step.
    """
    if network.config.interface.readout == "every":
        raise RequestError(
            f"{network.config.name} answers at every step, so that no answer depends on the whole sequence."
        )
    steps = torch.arange(x.shape[1])
    whole = ends(x, lengths)[:, None]
    neutral = _neutral(network, x)
    rows: list[list[tuple[float, float]]] = []
    for end in ("last", "first"):
        row = []
        for share in SHARES:
            count = (share * whole).round()
            gone = (steps >= whole - count) & (steps < whole) if end == "last" else steps < count
            where = gone.reshape(*gone.shape, *[1] * (x.dim() - 2)).to(x.device)
            loss, metric, n = score(target, network(torch.where(where, neutral, x), lengths), y)
            row.append((float(metric / n), float(loss / n)))
        rows.append(row)
    values = np.array(rows)
    axes = (Axis("end", ("last", "first")), Axis("share", SHARES))
    setting = {"of": described(network.config), "sequences": len(x)}
    unit = TARGETS[target].title
    return Dependency(setting, Array(values[..., 0], axes, unit), Array(values[..., 1], axes, "loss"))


def _neutral(network: Network, x: Tensor) -> Tensor:
    """One time step that says nothing."""
    if network.embedding is None:
        return x.mean((0, 1))
    token = UNKNOWN if network.tokenizer is None else network.tokenizer.neutral
    return torch.tensor(token, dtype=x.dtype, device=x.device)
