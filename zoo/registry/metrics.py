"""The kinds of targets that a task can have, with the loss and the metric of each kind. Does not import torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Target = Literal["class", "value", "binary"]
"""A class; real values; or several outputs of which each is on or off, such as the notes of a chord."""
Metric = Literal["accuracy", "mse", "nll"]


@dataclass(frozen=True)
class Measure:
    """The loss and the metric of one kind of target, and the format in which the metric is shown."""

    metric: Metric
    title: str
    loss: str
    """The loss with its unit. Training minimises it, and keeps the weights whose validation loss is lowest."""
    tolerance: Callable[[float], float]
    """Largest difference allowed when a value is measured again, on any machine."""
    digits: str
    """Format of a measured value."""
    scale: float = 1.0
    """Factor from the unit in results.json to the unit that people read."""
    unit: str = ""
    higher_is_better: bool = True

    def text(self, value: float) -> str:
        """Return a measured value, rounded, with its unit."""
        return f"{self.scale * value:{self.digits}}{self.unit}"

    def printed(self, value: float) -> str:
        """Return a reported value with all digits that the paper prints."""
        return f"{self.scale * value:.10g}{self.unit}"

    def difference(self, value: float) -> str:
        """Return the difference of two values as text, with its sign; for accuracies, in percentage points."""
        return f"{self.scale * value:+{self.digits}}"


TARGETS: dict[Target, Measure] = {
    "class": Measure("accuracy", "accuracy", "cross-entropy in nats", lambda value: 1e-3, ".2f", 100.0, " %"),
    "value": Measure(
        "mse", "mean squared error", "squared error", lambda value: 0.01 * value, ".3g", higher_is_better=False
    ),
    "binary": Measure(
        "nll",
        "negative log-likelihood a step",
        "cross-entropy in nats, summed over the outputs of a step",
        lambda value: 1e-3 * value,
        ".3f",
        unit=" nats",
        higher_is_better=False,
    ),
}
METRICS: dict[Metric, Measure] = {measure.metric: measure for measure in TARGETS.values()}
