"""Trains one model or many, and evaluates checkpoints."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..checkpoints.results import Epoch

Recorder = Callable[..., Sequence[float]]
"""A diagnostic computed after every epoch: f(network, x, y, lengths, target) returns one number for each layer."""


@dataclass(frozen=True)
class Progress:
    """The progress of a run, reported after every step. `loss` and `metric` are means over the epoch so far."""

    epoch: int
    epochs: int
    step: int
    steps: int
    """The last step that this call of `train` will make."""
    loss: float
    metric: float
    """The metric of the task, see zoo.registry.metrics."""
    rate: float
    """Steps per second since this process began."""
    finished: Epoch | None = None
    """The epoch's row of the history if the step ended an epoch, else None."""

    @property
    def remaining(self) -> float:
        """Seconds left at the current rate."""
        return (self.steps - self.step) / self.rate if self.rate else math.inf
