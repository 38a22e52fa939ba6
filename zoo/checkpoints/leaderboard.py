"""Reads and writes cards/leaderboard.json: what each cell reached on each task under one protocol.

`python -m benchmarks.leaderboard` makes the measurements. Nothing here imports torch.
"""

import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

from pydantic import Field, TypeAdapter

from ..registry import load_registry
from ..registry.metrics import METRICS, Measure, Metric
from ..registry.schema import Key, Seq, Spec, Text
from ..utils.text import significant
from .tables import Table

YARDSTICK = "lstm"
"""The cell that `standing` compares others with."""
MARGIN = 0.015
"""A cell is no better than chance if its accuracy exceeds that of guessing by less, or its error is less than this share smaller."""
CHANCE = "no better than chance"


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
    """Mean seconds of the training runs that no pause disturbed, on one thread, validation included."""
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
    def quality(self) -> float | None:
        """The mean, negated if lower is better, of nine digits: as many right answers are equal, however the seeds share them."""
        return None if self.mean is None else float(f"{self.measure.quality(self.mean):.9g}")

    @property
    def at_chance(self) -> bool:
        """True if the cell is no better than one constant answer. False if it is unknown how good such an answer is."""
        task = load_registry().all_tasks.get(self.task)
        if self.mean is None or task is None or task.chance is None:
            return False
        if self.measure.higher_is_better:
            return self.mean < task.chance + MARGIN
        return self.mean > (1 - MARGIN) * task.chance

    @property
    def text(self) -> str:
        """The mean and standard deviation of the metric over the seeds, and how many runs diverged."""
        if not self.values:
            return "diverged"
        lost = f" ({len(self.diverged)} diverged)" if self.diverged else ""
        return f"{self.measure.mean_text(self.values)}{lost}"

    @property
    def figure(self) -> str:
        """The `text`, and whether the cell is no better than chance."""
        return f"{self.text}, {CHANCE}" if self.at_chance else self.text


def _key(row: Row) -> tuple[str, str]:
    return row.task, row.cell


_TABLE = Table(("cards", "leaderboard.json"), TypeAdapter(list[Row]), _key)
record = _TABLE.record


def read() -> list[Row]:
    """Return all rows sorted by task, then the best first and diverged cells last. Raises RegistryError for a damaged file."""

    def rank(row: Row) -> tuple[str, bool, float, str]:
        return row.task, row.quality is None, -(row.quality or 0.0), row.cell

    return sorted(_TABLE.read(), key=rank)


def places(rows: Sequence[Row]) -> list[int]:
    """Return the place of each row of one task among them: 1 for the best. Equal figures, and all at chance, share a place."""

    def worth(row: Row) -> tuple[bool, bool, float]:
        if row.quality is None or row.at_chance:
            return row.quality is not None, False, 0.0
        return True, True, row.quality

    worths = [worth(row) for row in rows]
    return [1 + sum(other > mine for other in worths) for mine in worths]


def ranked() -> dict[str, list[tuple[int, Row]]]:
    """Return, by task, each row with its place among the rows of the task, the best first and diverged cells last."""
    groups = {task: list(rows) for task, rows in groupby(read(), key=lambda row: row.task)}
    return {task: list(zip(places(rows), rows, strict=True)) for task, rows in groups.items()}


def standing(cell: str) -> list[str]:
    """Return a sentence for each task of the leaderboard on which `cell` was measured.

    The sentence has the rank of `cell` among the cells, its figure, the time of one step, and the same of the LSTM.
    """
    sentences = []
    for task, placed in ranked().items():
        rows = {row.cell: row for _, row in placed}
        if (row := rows.get(cell)) is None:
            continue
        about = float(f"{statistics.median(each.parameters for _, each in placed):.1e}")
        place = next(place for place, each in placed if each is row)
        other = rows.get(YARDSTICK)
        compared = f" ({YARDSTICK}: {_reached(other)})" if other is not None and cell != YARDSTICK else ""
        sentences.append(
            f"Rank {place} of {len(rows)} cells with about {about:,.0f} parameters on "
            f"{load_registry().all_tasks[task].title}: {_reached(row)}{compared}."
        )
    return sentences


def _reached(row: Row) -> str:
    comma = "," if row.at_chance else ""
    timed = "" if row.step_us is None else f"{comma} and {significant(row.step_us)} µs per streamed step"
    return f"{row.figure}{timed}"
