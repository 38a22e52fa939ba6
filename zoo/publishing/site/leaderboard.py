"""The page of the leaderboard: what every cell reached on each task under one protocol, as one table and as charts."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ... import registry
from ...checkpoints import leaderboard, protocol
from ...checkpoints.leaderboard import Row
from ...registry.metrics import Measure
from ...utils.text import significant
from ..pages.leaderboard import mean_ranks, most_cells
from . import charts, facts
from .templating import Site

DRAWN = 0.75
"""The share of the cells, the best first, that the chart of a task shows."""


@dataclass(frozen=True)
class Column:
    """A task, with the rows of its cells and their places, the best first. chart: None if too few cells are better than chance."""

    task: str
    title: str
    placed: Sequence[tuple[int, Row]]
    chart: Markup | None

    @property
    def measure(self) -> Measure:
        return self.placed[0][1].measure


@dataclass(frozen=True)
class Entry:
    """What a cell reached on a task."""

    place: int
    text: str
    """The mean over the seeds, without its unit."""
    words: str
    """The place, the mean and the standard deviation."""
    share: float | None
    """From 1 for the first place to 0 for the last; None if the cell is no better than chance, or diverged."""


def add(site: Site) -> None:
    """Add the page to the site, if cells were measured."""
    ranked = leaderboard.ranked()
    if not ranked:
        return
    titles = {name: task.title for name, task in registry.load_registry().all_tasks.items()}
    columns = [
        Column(task, titles[task], placed, chart(task, [r for _, r in placed])) for task, placed in ranked.items()
    ]
    entries = {
        (row.task, row.cell): entry(place, row, len(column.placed))
        for column in columns
        for place, row in column.placed
    }
    widest = most_cells({column.task: [row for _, row in column.placed] for column in columns})
    means = {cell: statistics.fmean(places) for cell, places in mean_ranks(widest).items()}
    others = sorted({row.cell for column in columns for _, row in column.placed} - means.keys())
    rows = [
        (cell, means.get(cell), facts.colour(cell), [entries.get((column.task, cell)) for column in columns])
        for cell in (*means, *others)
    ]
    site.page(
        "leaderboard.html",
        "leaderboard.html",
        rows=rows,
        columns=columns,
        widest=list(widest),
        settings=protocol.read(),
    )


def entry(place: int, row: Row, count: int) -> Entry:
    """Return the entry of a row, which has this place among `count` cells."""
    if row.mean is None:
        return Entry(place, "diverged", f"{place} of {count}: diverged", None)
    text = f"{row.measure.scale * row.mean:{row.measure.digits}}"
    share = None if row.at_chance else 1 - (place - 1) / max(1, count - 1)
    return Entry(place, text, f"{place} of {count}: {row.figure}", share)


def chart(task: str, rows: Sequence[Row]) -> Markup | None:
    """Return a scatter plot of what the first cells reached against the time of a step; None without two of them.

    rows: the best first. The last ones, whose figures would crowd the others together, and those at chance are left out.
    """
    points = [
        charts.Point(
            row.cell, row.step_us, row.measure.scale * row.mean, facts.colour(row.cell), f"cells/{row.cell}.html",
            f"{row.text}, {significant(row.step_us)} µs per step",
        )
        for row in rows[: math.ceil(DRAWN * len(rows))]
        if row.step_us is not None and row.mean is not None and not row.at_chance
    ]  # fmt: skip
    if len(points) < 2:
        return None
    measure = rows[0].measure
    order = f"{measure.unit.strip() or measure.title}; {'higher' if measure.higher_is_better else 'lower'} is better"
    words = f"What {len(points)} cells reached on {task} against the time of a step. Every figure is in the table."
    return charts.scatter(points, "microseconds per step", order, log=True, summary=words)
