"""The tables of models with weights, in README.md and in docs/models.md. Does not import torch."""

from collections.abc import Sequence

from ...checkpoints.results import Results
from ...registry import Entry
from ...registry.lock import Counts
from ...registry.metrics import METRICS
from ...utils.text import markdown
from ..cards import value_text
from ..starters import STARTERS
from . import card_link
from .tasks import test_data

ModelRow = tuple[Entry, Results, Counts]
"""A model with its recorded results and its numbers of parameters and multiply-adds."""


def table(rows: Sequence[ModelRow], root: str) -> str:
    """Return the Markdown table of `rows`. root: path from the page's folder to the repository's root, for links."""
    header = ("model", "task", "parameters", "measured", "examples", "reported")
    return markdown(header, [_model_cells(row, root) for row in rows])


def starters(rows: Sequence[ModelRow], root: str) -> str:
    """Return the Markdown table of the models in STARTERS that are among `rows`. root: as in `table`."""
    by_name = {row[0].name: row for row in rows}
    header, table = ("model", "task", "parameters", "measured", "in the paper", "test data"), []
    for row in (by_name[name] for name in STARTERS if name in by_name):
        model, task, size, figure, _, paper = _model_cells(row, root)
        table.append((model, task, size, figure, paper, test_data(row[0].task, row[0].dataset)))
    return markdown(header, table)


def _model_cells(row: ModelRow, root: str) -> tuple[str, ...]:
    entry, recorded, count = row
    evaluation = recorded.measured()
    figure, examples = (value_text(evaluation), f"{evaluation.n:,}") if evaluation else ("-", "-")
    if evaluation and evaluation.metric != "accuracy":
        figure = f"{METRICS[evaluation.metric].title} {figure}"
    link = card_link(entry.name, root=root)
    return link, entry.task.title, f"{count.parameters:,}", figure, examples, entry.model.reported_text or "-"
