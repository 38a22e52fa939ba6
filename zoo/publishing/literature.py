"""Figures that papers report of networks without an entry, beside those measured here. No torch."""

from collections.abc import Sequence

from ..checkpoints.results import Results
from ..registry import load_registry
from ..registry.metrics import METRICS
from ..utils.text import markdown
from .comparison import Row
from .pages import ModelRow

PAGE = ("docs", "literature.md")


def rows(task: str | None = None, paper: str | None = None) -> list[Row]:
    """Return a row for each figure of the registry's `literature`, of one task or one paper if given, as the file has them.

    `model` is the name of the network in the paper, `kind` is "literature", `layers` and `units` are 0.
    """
    known = load_registry()
    return [
        Row(
            model=network, kind="literature", layers=0, units=0, task=name, task_title=known.all_tasks[name].title,
            dataset=known.all_tasks[name].dataset, metric="accuracy", paper=table.paper, table=table.table,
            reported=round(figure / 100, 10), split="test",
        )
        for table in known.literature if paper in (None, table.paper)
        for network, figures in table.percent.items()
        for name, figure in zip(table.tasks, figures, strict=True) if figure is not None and task in (None, name)
    ]  # fmt: skip


def page(models: Sequence[ModelRow]) -> str:
    """Return docs/literature.md: for each task of the literature, its figures and ours, best first."""
    every_row, unit = rows(), METRICS["accuracy"]
    parts = [
        "# Networks of the literature",
        "Test accuracies that papers report for networks without an entry in the registry, and those of the networks here "
        "that have weights, best first. A source is the table that was read: many tables repeat figures of other papers. Sizes, "
        "augmentation, splits for validation and the permutation of the pixels differ from paper to paper. `rnnzoo compare "
        "--task TASK` prints these figures too.",
    ]
    for task, title in dict.fromkeys((row.task, row.task_title) for row in every_row):
        figures = [
            (row.reported or 0.0, row.model, "-", unit.printed(row.reported or 0.0), _source(row))
            for row in every_row
            if row.task == task
        ]
        for entry, recorded, count in models:
            if entry.weights and entry.model.task == task and (evaluation := recorded.measured()):
                link = f"[`{entry.name}`](../cards/{entry.name}/README.md)"
                size, accuracy = f"{count.parameters:,}", unit.text(evaluation.value)
                figures.append((evaluation.value, link, size, accuracy, _training(recorded)))
        figures.sort(key=lambda figure: -figure[0])
        table = markdown(("network", "parameters", "accuracy", "source"), [cells for _, *cells in figures])
        parts.append(f"## {title[0].upper()}{title[1:]} (`{task}`)\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _source(row: Row) -> str:
    paper = load_registry().papers[row.paper or ""]
    return f"[{paper.citation}]({paper.link}), {row.table}"


def _training(recorded: Results) -> str:
    stages = recorded.training.recipe.timeline if recorded.training else ()
    return "measured here" + (", training images augmented" if any(stage.augments for stage, _ in stages) else "")
