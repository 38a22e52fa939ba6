"""The kinds of targets that a task can have, with the loss and the metric of each kind. Does not import torch."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Target = Literal["class", "token", "value", "binary", "forecast"]
"""What a task predicts. class: one of several classes. token: the next token of a text. value: real values. binary: several
outputs, each on or off, such as a chord's notes. forecast: the standardised values of a series some steps ahead."""
Metric = Literal["accuracy", "cross_entropy", "mse", "nll", "nrmse"]


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
    """Format specification of a measured value, such as ".2f"."""
    scale: float = 1.0
    """Factor from the unit in results.json to the unit that people read."""
    unit: str = ""
    higher_is_better: bool = True
    in_bits: bool = False
    """Whether `text` also gives the value in bits."""
    is_root: bool = False
    """Whether the metric is the square root of the mean over the targets, not the mean itself."""

    def of_mean(self, mean: float) -> float:
        """Return the metric. mean: the metric's sum from zoo.training.evaluation.score, divided by the number of targets."""
        return math.sqrt(mean) if self.is_root else mean

    @property
    def axis(self) -> str:
        """The title of an axis: the metric with its unit."""
        return f"{self.title},{self.unit}" if self.unit else self.title

    @property
    def is_loss(self) -> bool:
        """Whether the metric is what training minimises; an accuracy and a root are not."""
        return self.metric != "accuracy" and not self.is_root

    def quality(self, value: float) -> float:
        """Return a value, or a difference of values, scaled for display, and negated if lower is better: larger is better."""
        return self.scale * value * (1 if self.higher_is_better else -1)

    def with_loss(self, loss: float, value: float) -> str:
        """Return a loss and the metric as text; the metric alone if it is the loss."""
        return self.text(value) if self.is_loss else f"{loss:.4f}, {self.title} {self.text(value)}"

    def text(self, value: float) -> str:
        """Return a measured value, rounded, with its unit."""
        bits = f" ({value / math.log(2):{self.digits}} bits)" if self.in_bits else ""
        return f"{self.scale * value:{self.digits}}{self.unit}{bits}"

    def mean_text(self, values: Sequence[float]) -> str:
        """Return the mean and, of several values, the standard deviation as text."""
        spread = f" ± {self.text(statistics.stdev(values))}" if len(values) > 1 else ""
        return f"{self.text(statistics.fmean(values))}{spread}"

    def printed(self, value: float) -> str:
        """Return a reported value with all digits that the paper prints."""
        return f"{self.scale * value:.10g}{self.unit}"

    def difference(self, value: float) -> str:
        """Return the difference of two values as text, with its sign; for accuracies, in percentage points."""
        return f"{self.scale * value:+{self.digits}}"


TARGETS: dict[Target, Measure] = {
    "class": Measure("accuracy", "accuracy", "cross-entropy in nats", lambda value: 1e-3, ".2f", 100.0, " %"),
    "token": Measure(
        "cross_entropy",
        "cross-entropy per token",
        "cross-entropy in nats",
        lambda value: 1e-3 * value,
        ".3f",
        unit=" nats",
        higher_is_better=False,
        in_bits=True,
    ),
    "value": Measure(
        "mse", "mean squared error", "squared error", lambda value: 0.01 * value, ".3g", higher_is_better=False
    ),
    "binary": Measure(
        "nll",
        "negative log-likelihood per step",
        "cross-entropy in nats, summed over the outputs of a step",
        lambda value: 1e-3 * value,
        ".3f",
        unit=" nats",
        higher_is_better=False,
    ),
    "forecast": Measure(
        "nrmse",
        "normalised RMSE",
        "squared error",
        lambda value: 0.01 * value,
        ".3g",
        higher_is_better=False,
        is_root=True,
    ),
}
METRICS: dict[Metric, Measure] = {measure.metric: measure for measure in TARGETS.values()}
