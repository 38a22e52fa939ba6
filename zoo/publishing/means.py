"""Means over the tasks of a dataset, of the figures that papers report and of those that we measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ..registry.metrics import Measure
from ..utils.text import counted
from .comparison import Row


@dataclass(frozen=True)
class Mean:
    """The unweighted means of one architecture's figures over the tasks of one dataset."""

    table: str | None
    kind: str
    tasks: int
    reported: float
    measured: float | None
    """Mean over the measured tasks; None if no task is measured."""
    over_seeds: tuple[float, ...]
    """Means over the measured tasks, one for each of the seeds that all of these have; empty if they have fewer than two."""
    measured_tasks: int
    reported_there: float | None
    """Mean of the reported figures over the measured tasks; None if no task is measured."""
    measure: Measure

    @property
    def measured_text(self) -> str | None:
        """The mean as text or, over several seeds, the mean and the standard deviation of their means."""
        if self.over_seeds:
            return f"{self.measure.mean_text(self.over_seeds)} ({counted(len(self.over_seeds), 'seed')})"
        return None if self.measured is None else self.measure.text(self.measured)


def means(rows: Sequence[Row]) -> list[Mean]:
    """Return means over tasks, for each table and architecture with reported figures on at least three tasks of a dataset."""
    groups: dict[tuple[str | None, str, str, int, int], list[Row]] = {}
    for r in rows:
        if r.reported is not None:
            groups.setdefault((r.table, r.dataset, r.kind, r.layers, r.units), []).append(r)
    averages = []
    for (table, _, kind, layers, units), group in groups.items():
        if len(group) < 3:
            continue
        done = [r for r in group if r.measured is not None]
        averages.append(
            Mean(
                table=table, kind=f"{kind}-{layers}x{units}", tasks=len(group), reported=_mean([r.reported for r in group]) or 0.0,
                measured=_mean([r.measured for r in done]), over_seeds=_over_seeds(done), measured_tasks=len(done),
                reported_there=_mean([r.reported for r in done]), measure=group[0].measure,
            )
        )  # fmt: skip
    return averages


def _over_seeds(rows: Sequence[Row]) -> tuple[float, ...]:
    """Return the means of the rows' figures, one for each of the seeds that all rows have; () if these are fewer than two."""
    by_seed = [dict(zip(r.seeds, r.values, strict=True)) if len(r.seeds) == r.runs else {} for r in rows]
    shared = sorted(set.intersection(*map(set, by_seed))) if by_seed else []
    return tuple(statistics.fmean(each[seed] for each in by_seed) for seed in shared) if len(shared) > 1 else ()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
