"""`rnnzoo leaderboard`: ranks the cells that were trained by one protocol."""

from typing import Annotated

from typer import Option

from zoo.checkpoints import leaderboard as rows
from zoo.utils.arguments import check_name

from .arguments import AsJson
from .output import columns, emit, say


def leaderboard(
    task: Annotated[str | None, Option(help="Only this task.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rank the cells that were trained by one protocol: equal parameters, updates, optimizer, seeds and splits."""
    every = rows.read()
    tasks = dict.fromkeys(row.task for row in every)
    if task is not None:
        check_name("ranked task", task, tasks)
    shown = [row for row in every if task in (None, row.task)]
    header = ("TASK", "CELL", "UNITS", "PARAMETERS", "METRIC", "FIGURE", "RATE", "UPDATES", "SECONDS", "US PER STEP")
    table = [
        (
            row.task, row.cell, row.units, f"{row.parameters:,}", row.measure.title, row.text, row.rate, f"{row.updates:,}",
            row.seconds, row.step_us,
        )
        for row in shown
    ]  # fmt: skip
    emit([row.model_dump(mode="json") for row in shown], as_json, columns(header, table))
    if not every:
        say("No cell has been measured yet. To measure, run in a checkout: python -m benchmarks.leaderboard")
