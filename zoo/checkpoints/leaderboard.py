"""Reads and writes cards/leaderboard.json: what each cell reached on each task under one protocol.

`python -m benchmarks.leaderboard` makes the measurements. Nothing here imports torch.
"""

import statistics
from typing import Annotated

from pydantic import Field, TypeAdapter

from ..registry.metrics import METRICS, Measure, Metric
from ..registry.schema import Key, Seq, Spec, Text
from .tables import Table


class Row(Spec):
    """The result of one cell on one task."""

    task: Key
    cell: Key
    units: Annotated[int, Field(ge=1)]
    parameters: int
    rates: dict[str, float | None]
    """By learning rate: the lowest validation loss of the first seed's run; None if the run diverged."""
    rate: float | None = None
    """The learning rate with the lowest of these losses; None if all runs diverged."""
    metric: Metric
    values: Seq[float] = ()
    """The metric on the test set at that rate, one for each seed whose run did not diverge."""
    diverged: Seq[int] = ()
    """Seeds of the runs at that rate that diverged."""
    updates: int
    """Number of the optimizer's steps in a run."""
    seconds: float | None = None
    """Mean seconds of a training run on one thread, validation included."""
    step_us: float | None = None
    """CPU time, in microseconds, of one streamed step of one sequence."""
    cpu: Text
    date: Text
    command: Text

    @property
    def measure(self) -> Measure:
        return METRICS[self.metric]

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.values) if self.values else None

    @property
    def text(self) -> str:
        """The mean and standard deviation of the metric over the seeds, and how many runs diverged."""
        if not self.values:
            return "diverged"
        lost = f" ({len(self.diverged)} diverged)" if self.diverged else ""
        return f"{self.measure.mean_text(self.values)}{lost}"


def _key(row: Row) -> tuple[str, str]:
    return row.task, row.cell


_TABLE = Table(("cards", "leaderboard.json"), TypeAdapter(list[Row]), _key)
record = _TABLE.record


def read() -> list[Row]:
    """Return all rows sorted by task, then the best first and diverged cells last. Raises RegistryError for a damaged file."""

    def rank(row: Row) -> tuple[str, bool, float, str]:
        mean = row.mean
        return row.task, mean is None, (-1 if row.measure.higher_is_better else 1) * (mean or 0.0), row.cell

    return sorted(_TABLE.read(), key=rank)
