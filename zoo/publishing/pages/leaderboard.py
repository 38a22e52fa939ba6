"""Writes docs/leaderboard.md: the figures of each cell on each task, trained under one protocol. Does not import torch."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...checkpoints import leaderboard, protocol
from ...registry import load_registry
from ...utils import paths
from ...utils.text import capitalised, counted, markdown, significant

PAGE = ("docs", "leaderboard.md")
FEWEST = 8
"""The least number of cells that the tasks compared with one another have in common."""
MOST = 0.75
"""The share of all cells that the tasks of the wider table have in common at least."""
NAMED = 12
"""At most so many cells that a task lacks are named."""


def pages() -> dict[Path, str]:
    """Return the text of docs/leaderboard.md, by path; nothing if nothing was measured."""
    return {paths.path(*PAGE): page()} if leaderboard.read() else {}


def page() -> str:
    """Return the text of docs/leaderboard.md."""
    tasks = load_registry().all_tasks
    settings = protocol.read()
    parts = [
        "# Leaderboard: cells under one protocol",
        f"Networks with about {settings.parameters:,} parameters (within {100 * settings.tolerance:g} %), trained alike by "
        "[one protocol](#the-protocol). A figure is the mean and the "
        "standard deviation of the test metric over the seeds, at the best of three learning rates. The budget is small, so the "
        "tables say which cells learn fast, not what they reach in the end. `rnnzoo leaderboard` prints these rows.",
        "Each cell starts from its own initial values, with its default options except for those of the protocol; "
        "[its item](cells.md#equations) says where they are not its paper's. Cells stand alone, without the blocks of feed-forward "
        "layers in which papers use linear recurrences; without these, `lru`, `s4d` and `s5` are linear maps of the sequence. "
        "Left out are cells whose state is a matrix, cells that are not trained, and those that the protocol names. The text of `shakespeare` is read in one "
        "stream, over which a state that has no bound can grow until its answers are worse than guesses.",
    ]
    header = ("#", "cell", "units", "parameters", "figure", "rate", "seconds of training", "µs per step")
    placed = leaderboard.ranked()
    ranked = {task: [row for _, row in of_task] for task, of_task in placed.items()}
    every = {row.cell for rows in ranked.values() for row in rows}
    common, wide = comparable(ranked), most_cells(ranked)
    tables = (
        {"## Most cells": wide, "## Most tasks": common}
        if wide.keys() < common.keys()
        else {"## Over the tasks": common}
    )
    for title, chosen in tables.items():
        if (shared := over_tasks(chosen)) is not None:
            missing = [f"`{t}` ({len(ranked.get(t, ()))})" for t in settings.tasks if t not in chosen]
            gap = f" Tasks on which too few cells were measured are left out: {', '.join(missing)}." if missing else ""
            text = (
                "The rank of each cell among those that were measured on all of these tasks. Cells that are no better than chance "
                f"([what that is](#the-protocol)) share one rank, after all others but those that diverged. Neighbours may differ by less than their spread.{gap}"
            )
            parts += [title, text, shared]
    for task, rows in ranked.items():
        table = [(str(place), *_cells(row)) for place, row in placed[task]]
        title = tasks[task].title
        first = rows[0]
        order = "higher" if first.measure.higher_is_better else "lower"
        layers = counted(settings.layers_on(task), "layer")
        lost = sum(row.at_chance for row in rows)
        cells = counted(len(rows), "cell") + (f", {lost} of them {leaderboard.CHANCE}" if lost else "")
        missing = sorted(every - {row.cell for row in rows})
        names = ", ".join(f"`{cell}`" for cell in missing) if len(missing) <= NAMED else f"{len(missing)} other cells"
        gap = f" Not measured yet: {names}." if missing else ""
        parts.append(
            f"## {capitalised(title)} (`{task}`)\n\n{capitalised(first.measure.title)}, {order} is better; "
            f"{layers}; {first.updates:,} updates; {cells}; {', '.join(sorted({row.cpu for row in rows}))}, one thread.{gap}\n\n{markdown(header, table)}"
        )
    parts += [
        "## The protocol",
        "The learning rate is the one with the lowest validation loss for the first seed. Seconds are wall-clock time, on cores "
        "that other work may have shared; paused runs do not count, and a dash says that every run was paused. Microseconds are CPU time. `python -m benchmarks.leaderboard --task TASK --cell CELL` "
        "measures one row again; rounding on another processor can change its figures. `rnnzoo leaderboard --json` has more of each: `rates`, the lowest validation loss of the first seed at "
        "each learning rate (null if the run diverged); `values`, the test metric of each seed; and `diverged`, the seeds that have "
        "none. Chance is the figure of one constant answer: of guessing a class, or of the frequencies in the training data. "
        f"A cell is {leaderboard.CHANCE} if its mean accuracy is less than {100 * leaderboard.MARGIN:g} percentage points above "
        f"that, or its mean error above {100 * (1 - leaderboard.MARGIN):g} % of it.",
        f"```yaml\n{protocol.text()}```",
    ]
    return "\n\n".join(parts) + "\n"


def comparable(
    ranked: Mapping[str, Sequence[leaderboard.Row]], fewest: int = FEWEST
) -> dict[str, list[leaderboard.Row]]:
    """Return tasks with their rows that have at least `fewest` cells in common. The tasks with the most cells come in first."""
    shared: set[str] | None = None
    chosen = set()
    for task, rows in sorted(ranked.items(), key=lambda item: -len(item[1])):
        cells = {row.cell for row in rows} if shared is None else shared & {row.cell for row in rows}
        if len(cells) >= fewest:
            shared = cells
            chosen.add(task)
    return {task: list(rows) for task, rows in ranked.items() if task in chosen}


def most_cells(ranked: Mapping[str, Sequence[leaderboard.Row]]) -> dict[str, list[leaderboard.Row]]:
    """Return those tasks, with their rows, that have at least the share MOST of all cells in common."""
    return comparable(ranked, fewest=int(MOST * len({row.cell for rows in ranked.values() for row in rows})))


def mean_ranks(ranked: Mapping[str, Sequence[leaderboard.Row]]) -> dict[str, list[int]]:
    """Return, for each cell that every task has, its place among these cells on each task. The best mean comes first.

    ranked: the rows of each task, the best first.
    """
    shared = set.intersection(*({row.cell for row in rows} for rows in ranked.values())) if ranked else set()
    of_shared = [[row for row in rows if row.cell in shared] for rows in ranked.values()]
    places = [dict(zip((r.cell for r in rows), leaderboard.places(rows), strict=True)) for rows in of_shared]
    by_cell = {cell: [of_task[cell] for of_task in places] for cell in shared}
    return dict(sorted(by_cell.items(), key=lambda item: (statistics.fmean(item[1]), item[0])))


def over_tasks(ranked: Mapping[str, Sequence[leaderboard.Row]]) -> str | None:
    """Return a table of the cells that every task has, by their mean rank among them; None if there are under two tasks.

    ranked: the rows of each task, the best first.
    """
    ranks = mean_ranks(ranked) if len(ranked) > 1 else {}
    table = [(f"`{cell}`", f"{statistics.fmean(each):.1f}", *map(str, each)) for cell, each in ranks.items()]
    return markdown(("cell", "mean rank", *(f"`{task}`" for task in ranked)), table) if table else None


def _cells(row: leaderboard.Row) -> tuple[str, ...]:
    """Return the cells of a line of a task's table, but its place."""
    numbers = ("-" if value is None else significant(value) for value in (row.seconds, row.step_us))
    rate = "-" if row.rate is None else f"{row.rate:g}"
    return f"`{row.cell}`", f"{row.units:,}", f"{row.parameters:,}", row.figure, rate, *numbers
