"""Reported against measured: registry and recorded results in, rows out. No torch."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registry
from ..checkpoints import results
from ..errors import RequestError, UnknownNameError
from ..registry.metrics import METRICS, TARGETS, Measure, Metric
from ..registry.schema import Model
from .account import followed
from .cards import citation

Named = Callable[[str], results.Results]


@dataclass(frozen=True)
class Row:
    """One model beside one figure that a document reports of it, or beside none."""

    model: str
    kind: str
    """What a curve is of: the cell, with `bi` or `conv` before and a tag behind it if the model has them."""
    layers: int
    units: int
    task: str
    task_title: str
    dataset: str
    metric: Metric
    paper: str | None = None
    table: str | None = None
    reported: float | None = None
    """In the metric's own unit; an accuracy is a fraction."""
    measured: float | None = None
    split: str | None = None
    n: int | None = None
    """Examples that `measured` is of."""
    recipe: str | None = None
    """What the measured weights were trained by."""
    epochs_done: int | None = None
    epochs: int | None = None
    paper_epochs: int | None = None
    """Those of a paper's recipe, where the recipe is that or follows it."""
    recipe_paper: str | None = None
    """Which paper's."""
    converged: bool = False
    """Whether the training ended because the validation loss fell no more."""
    diverged: int | None = None
    """The epoch in which the training ended for numbers that are not finite."""
    seed: int | None = None
    stand_in: str | None = None
    """The dataset that ours stands in for; then the two figures are not of the same test."""

    @property
    def unit(self) -> Measure:
        return METRICS[self.metric]

    @property
    def difference(self) -> float | None:
        """Measured less reported, if both are there and of the same test."""
        if self.reported is None or self.measured is None or self.stand_in:
            return None
        return self.measured - self.reported

    @property
    def difference_text(self) -> str | None:
        return None if self.difference is None else self.unit.difference(self.difference)

    @property
    def reported_text(self) -> str | None:
        note = " (training set)" if self.split == "train" else ""
        return None if self.reported is None else self.unit.printed(self.reported) + note

    @property
    def measured_text(self) -> str | None:
        note = f" (on a stand-in for {self.stand_in})" if self.stand_in else ""
        return None if self.measured is None else self.unit.text(self.measured) + note

    @property
    def training_text(self) -> str | None:
        """Recipe, how much of it was done, and how many epochs the paper's has if that is another number."""
        known = registry.load_registry().papers
        other = self.recipe_paper if self.paper and self.recipe_paper != self.paper else None
        whose = citation(known[other]) if other else "paper"
        paper = f" ({whose}: {self.paper_epochs})" if self.paper_epochs not in (None, self.epochs) else ""
        end = "; diverged" if self.diverged else "; converged" if self.converged else ""
        return self.recipe and f"{self.recipe}, {self.epochs_done} of {self.epochs} epochs{paper}{end}"


def rows(
    pattern: str = "*", *, task: str | None = None, cell: str | None = None, paper: str | None = None,
    measured: bool = False, of: Named = results.for_model,
) -> list[Row]:  # fmt: skip
    """One row for each figure reported of a model that matches, and one for each that only we measured.

    Sorted by paper, table, task, cell, units and layers. paper: only figures of this one. measured: only models that
    were measured. of: the results of a name. Raises UnknownNameError.
    """
    papers = registry.load_registry().papers
    if paper is not None and paper not in papers:
        raise UnknownNameError("paper", paper, papers)
    found = [
        row
        for name in registry.list_models(pattern, task=task, cell=cell)
        for row in _rows_of(name, of(name))
        if paper in (None, row.paper) and not (measured and row.measured is None)
    ]
    return sorted(found, key=lambda r: (r.paper is None, r.paper, r.table, r.task, r.kind, r.units, r.layers))


def _rows_of(name: str, found: results.Results) -> list[Row]:
    entry = registry.find(name)
    spec, task = entry.model, entry.task
    metric = TARGETS[task.target].metric
    row = Row(
        model=name, kind=_kind(spec), layers=spec.layers, units=spec.units, task=spec.task, task_title=task.title,
        dataset=task.dataset, metric=metric, stand_in=entry.dataset.proxy_for,
    )  # fmt: skip
    if training := found.training:
        _, paper = followed(entry, training)
        row = replace(
            row, recipe=training.recipe_name, epochs_done=training.epochs_done, epochs=training.recipe.epochs,
            paper_epochs=paper.epochs if paper and paper.paper else None, recipe_paper=paper.paper if paper else None,
            diverged=training.diverged, converged=results.converged(training.history, training.recipe),
        )  # fmt: skip
    figures = [
        _measured(
            replace(row, paper=f.paper, table=f.table, reported=round(f.percent / 100, 10), split=f.split),
            found.measured(f.split),
        )
        for f in spec.reported
    ]
    evaluation = found.measured()
    return figures or ([_measured(row, evaluation)] if evaluation else [])


def _measured(row: Row, evaluation: results.Evaluation | None) -> Row:
    """The row with what was measured, or without how the weights came about."""
    if evaluation is None:
        return replace(
            row, recipe=None, epochs_done=None, epochs=None, paper_epochs=None, recipe_paper=None, diverged=None,
            converged=False,
        )  # fmt: skip
    return replace(row, measured=evaluation.value, split=evaluation.split, n=evaluation.n, seed=evaluation.seed)


@dataclass(frozen=True)
class Mean:
    """Figures of one architecture on the tasks of one dataset, each task weighing the same."""

    table: str | None
    kind: str
    tasks: int
    reported: float
    measured: float | None
    """Over the tasks that were measured."""
    done: int
    """How many those are."""
    expected: float | None
    """What is reported of those, on average."""
    unit: Measure


def means(table: Sequence[Row], least: int = 3) -> list[Mean]:
    """A row for each table and architecture of which `least` tasks of one dataset, or more, have a reported figure."""
    groups: dict[tuple[str | None, str, str, int, int], list[Row]] = {}
    for r in table:
        if r.reported is not None:
            groups.setdefault((r.table, r.dataset, r.kind, r.layers, r.units), []).append(r)
    found = []
    for (source, _, kind, layers, units), some in groups.items():
        done = [r for r in some if r.measured is not None]
        if len(some) >= least:
            name, reported = f"{kind}-{layers}x{units}", _mean([r.reported for r in some]) or 0.0
            measured, expected = (_mean([getattr(r, way) for r in done]) for way in ("measured", "reported"))
            found.append(Mean(source, name, len(some), reported, measured, len(done), expected, some[0].unit))
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _kind(spec: Model) -> str:
    return spec.prefix.rpartition("-")[0] + (f".{spec.tag}" if spec.tag else "")


def in_folder(folder: Path) -> Named:
    """Results of the runs that `rnnzoo train` left in folder/NAME. Raises RequestError if there is no such folder."""
    if not folder.is_dir():
        raise RequestError(f"There is no folder {folder}.")
    return lambda name: results.read_current(folder / name)[0]


def documents() -> list[str]:
    """The papers that report a figure of some model, sorted."""
    return sorted({figure.paper for model in registry.models().values() for figure in model.reported})


def digest(table: Sequence[Row]) -> str:
    """Sixteen hexadecimal digits that change with what a plot of these rows shows."""
    shown = [(r.model, r.paper, r.table, r.reported, r.measured, r.training_text, r.stand_in) for r in table]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
