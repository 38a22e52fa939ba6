"""`rnnzoo leaderboard`: ranks the cells that were trained by one protocol."""

from typing import Annotated

from typer import Option

from zoo.checkpoints.leaderboard import ranked
from zoo.utils.arguments import check_name

from .arguments import AsJson
from .output import columns, emit, say


def leaderboard(
    task: Annotated[str | None, Option(help="Only this task.")] = None,
    cell: Annotated[str | None, Option(help="Only this cell, with its rank on each task.")] = None,
    top: Annotated[int | None, Option(min=1, metavar="N", help="Only places 1 to N of each task.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rank the cells that were trained by one protocol: equal parameters, updates, optimizer, seeds and splits."""
    placed = [each for of_task in ranked().values() for each in of_task]
    for kind, asked in (("task", task), ("cell", cell)):
        if asked is not None:
            known = dict.fromkeys(getattr(row, kind) for _, row in placed)
            check_name(f"ranked {kind}", asked, known, "docs/leaderboard.md says what is left out.")
    shown = [
        (place, row)
        for place, row in placed
        if task in (None, row.task) and cell in (None, row.cell) and (top is None or place <= top)
    ]
    header = (
        "TASK", "#", "CELL", "UNITS", "PARAMETERS", "METRIC", "FIGURE", "RATE", "UPDATES", "SECONDS", "µs PER STEP",
    )  # fmt: skip
    table = [
        (
            row.task, place, row.cell, row.units, f"{row.parameters:,}", row.measure.title, row.figure, row.rate, f"{row.updates:,}",
            row.seconds, row.step_us,
        )
        for place, row in shown
    ]  # fmt: skip
    data = [
        {"place": place, "mean": row.mean, "at_chance": row.at_chance, **row.model_dump(mode="json")}
        for place, row in shown
    ]
    emit(data, as_json, columns(header, table))
    if placed and not shown:
        measured = any(row.cell == cell and task in (None, row.task) for _, row in placed)
        say(f"{cell} {f'is not among places 1 to {top}' if measured else f'has not been measured on {task} yet'}.")
    if not placed:
        say("No cell has been measured yet. To measure, run in a checkout: python -m benchmarks.leaderboard")
