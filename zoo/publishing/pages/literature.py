"""Figures that papers report for networks outside the registry, next to our figures. Does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...checkpoints.results import Results
from ...registry import load_registry
from ...registry.metrics import METRICS, TARGETS, Measure
from ...utils import paths
from ...utils.text import capitalised, markdown
from ..comparison import Row
from . import card_link
from .models import ModelRow

PAGE = ("docs", "literature.md")


def rows(task: str | None = None, paper: str | None = None) -> list[Row]:
    """Return a row for each figure in the registry's `literature`, in the registry's order.

    task, paper: return only the figures of this task and of this paper (default: of all). In each row, `model` is the name
    of the network in the paper, `kind` is "literature", and `layers` and `units` are 0.
    """
    known = load_registry()
    return [
        Row(
            model=network, kind="literature", layers=0, units=0, task=name, task_title=known.all_tasks[name].title,
            dataset=known.all_tasks[name].dataset, metric=measure(name).metric, paper=table.paper, table=table.table,
            reported=figure, split="test",
        )
        for table in known.literature if paper in (None, table.paper)
        for network, figures in table.values.items()
        for name, figure in zip(table.tasks, figures, strict=True) if figure is not None and task in (None, name)
    ]  # fmt: skip


def measure(task: str) -> Measure:
    """Return the metric of a task."""
    return TARGETS[load_registry().all_tasks[task].target]


@dataclass(frozen=True)
class Place:
    """A network in the ranking of a task."""

    name: str
    """The name of a registered model, or the paper's name of another network."""
    value: float
    """The task's metric; an accuracy is a fraction."""
    text: str
    """The value as text. A paper's has all the digits that the paper prints."""
    table: str
    """The paper's table; or "measured here", with a note if training images were augmented."""
    citation: str = ""
    """The paper; "" for a registered model."""
    parameters: int | None = None
    """Number of parameters of a registered model; None for a paper's network."""
    link: str = ""
    """Address of the paper."""

    @property
    def source(self) -> str:
        """The paper and its table, or how the figure was measured here."""
        return f"{self.citation}, {self.table}" if self.citation else self.table


def places(models: Sequence[ModelRow]) -> dict[str, list[Place]]:
    """Return {task: places, the best first} for the networks of the literature and those of `models` with weights."""
    papers = load_registry().papers
    ranking: dict[str, list[Place]] = {}
    for row in rows():
        paper, value = papers[row.paper or ""], row.reported or 0.0
        text = METRICS[row.metric].printed(value)
        place = Place(row.model, value, text, row.table or "", citation=paper.citation, link=paper.link)
        ranking.setdefault(row.task, []).append(place)
    for entry, recorded, count in models:
        if entry.weights and entry.model.task in ranking and (evaluation := recorded.measured()):
            value = evaluation.value
            text = METRICS[evaluation.metric].text(value)
            place = Place(entry.name, value, text, _training(recorded), parameters=count.parameters)
            ranking[entry.model.task].append(place)
    return {
        task: sorted(group, key=lambda place: place.value, reverse=measure(task).higher_is_better)
        for task, group in ranking.items()
    }


def pages(models: Sequence[ModelRow]) -> dict[Path, str]:
    """Return the text of docs/literature.md, by path."""
    return {paths.path(*PAGE): page(models)}


def page(models: Sequence[ModelRow]) -> str:
    """Return the text of docs/literature.md: for each task of the literature, the papers' figures and ours, best first."""
    tasks = load_registry().all_tasks
    parts = [
        "# Networks of the literature",
        "Results that papers report for networks that are not models of the zoo, some of them of cells that it has, and the zoo's models "
        "that have weights, best first. Papers' "
        "figures for the zoo's own models stand on [the papers' pages](../README.md#reported-against-measured). A source is the table that was read: many tables repeat figures of other papers. Sizes, "
        "augmentation, splits for validation and the permutation of the pixels differ from paper to paper. Networks here that "
        "read a text carry their state from its beginning to its end (stateful evaluation). `rnnzoo compare "
        "--task TASK` prints these figures too.",
    ]
    for task, ranking in places(models).items():
        title = tasks[task].title
        table = markdown(("network", "parameters", measure(task).title, "source"), list(map(_cells, ranking)))
        parts.append(f"## {capitalised(title)} (`{task}`)\n\n{table}")
    return "\n\n".join(parts) + "\n"


def _cells(place: Place) -> tuple[str, ...]:
    if place.parameters is None:
        return place.name, "-", place.text, f"[{place.citation}]({place.link}), {place.table}"
    return card_link(place.name), f"{place.parameters:,}", place.text, place.source


def _training(recorded: Results) -> str:
    stages = recorded.training.recipe.timeline if recorded.training else ()
    return "measured here" + (", training images augmented" if any(stage.augments for stage, _ in stages) else "")
