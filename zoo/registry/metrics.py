"""What a task asks a network for, a class or a value, and all that follows from it, in one table; no torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Target = Literal["class", "value"]
Metric = Literal["accuracy", "mse"]


@dataclass(frozen=True)
class Measure:
    """What is minimised, what is reported, how the latter is written, and which way is better."""

    metric: Metric
    title: str
    loss: str
    """What training minimises and chooses the best weights by, with its unit."""
    tolerance: Callable[[float], float]
    """How far a value may be from itself when it is measured again, on another machine."""
    digits: str
    """The format of a measured value."""
    scale: float = 1.0
    """From the metric's own unit, which results.json has, to the one it is written in."""
    unit: str = ""
    higher_is_better: bool = True

    def text(self, value: float) -> str:
        """A measured value, rounded."""
        return f"{self.scale * value:{self.digits}}{self.unit}"

    def printed(self, value: float) -> str:
        """A reported value with the digits that the paper prints."""
        return f"{self.scale * value:.10g}{self.unit}"

    def difference(self, value: float) -> str:
        """The difference of two values in the unit they are written in, percentage points for an accuracy; signed."""
        return f"{self.scale * value:+{self.digits}}"


TARGETS: dict[Target, Measure] = {
    "class": Measure("accuracy", "accuracy", "cross-entropy in nats", lambda value: 1e-3, ".2f", 100.0, " %"),
    "value": Measure(
        "mse", "mean squared error", "squared error", lambda value: 0.01 * value, ".3g", higher_is_better=False
    ),
}
METRICS: dict[Metric, Measure] = {measure.metric: measure for measure in TARGETS.values()}
