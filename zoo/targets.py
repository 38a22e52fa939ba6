"""What a task asks a network for, a class or a value, and all that follows from it, in one table; no torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Target = Literal["class", "value"]
Metric = Literal["accuracy", "mse"]


@dataclass(frozen=True)
class Measure:
    """What is minimised, what is reported, and how the latter is printed."""

    metric: Metric
    title: str
    loss: str
    """What training minimises and chooses the best weights by, with its unit."""
    text: Callable[[float], str]
    tolerance: Callable[[float], float]
    """How far a value may be from itself when it is measured again, on another machine."""


TARGETS: dict[Target, Measure] = {
    "class": Measure(
        "accuracy", "accuracy", "cross-entropy in nats", lambda value: f"{100 * value:.2f} %", lambda value: 1e-3
    ),
    "value": Measure(
        "mse", "mean squared error", "squared error", lambda value: f"{value:.3g}", lambda value: 0.01 * value
    ),
}
METRICS: dict[Metric, Measure] = {measure.metric: measure for measure in TARGETS.values()}
