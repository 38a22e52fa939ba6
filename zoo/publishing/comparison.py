"""Reported figures beside measured ones: registry and recorded results in, rows out. No torch."""

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registry
from ..checkpoints import results
from ..errors import RequestError, UnknownNameError
from ..registry.metrics import METRICS, TARGETS, Measure, Metric
from ..registry.schema import Model
from .training_text import base_recipe

ResultsOf = Callable[[str], Sequence[results.Results]]
"""The results of a model by its name, one for each of its training runs."""


@dataclass(frozen=True)
class Row:
    """One model with one figure that a paper reports of it, or with none, and our figure."""

    model: str
    kind: str
    """The curve it belongs to: the cell, after `bi` or `conv` and before a tag if the model has them."""
    layers: int
    units: int
    task: str
    task_title: str
    dataset: str
    metric: Metric
    paper: str | None = None
    table: str | None = None
    reported: float | None = None
    """In the unit of results.json, where an accuracy is a fraction."""
    measured: float | None = None
    """Mean over the runs that were measured."""
    std: float | None = None
    """Standard deviation over the runs, if there are several (n - 1 in the denominator)."""
    runs: int = 0
    """Number of runs that were measured."""
    seeds: tuple[int, ...] = ()
    """Of those runs, as far as they are known."""
    split: str | None = None
    n: int | None = None
    """Number of examples that were measured."""
    recipe: str | None = None
    """Name of the recipe that the measured weights were trained by."""
    epochs_done: int | None = None
    epochs: int | None = None
    paper_epochs: int | None = None
    """Epochs of the paper's recipe, if `recipe` is one or is based on one."""
    recipe_paper: str | None = None
    """The paper of that recipe."""
    converged: bool = False
    """True if training ended because the validation loss no longer fell."""
    diverged: int | None = None
    """The epoch in which training ended because a number was infinite or NaN."""
    stand_in: str | None = None
    """The paper's dataset that ours stands in for; then the two figures are not of the same test set."""

    @property
    def unit(self) -> Measure:
        return METRICS[self.metric]

    @property
    def difference(self) -> float | None:
        """Measured minus reported; None if one is missing or they are of different test sets."""
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
        if self.measured is None:
            return None
        spread = "" if self.std is None else f" ± {self.unit.text(self.std)} ({self.runs} runs)"
        return self.unit.text(self.measured) + spread + note

    @property
    def seed(self) -> int | None:
        """The seed, if there is one run and its seed is known."""
        return self.seeds[0] if len(self.seeds) == self.runs == 1 else None

    @property
    def seed_text(self) -> str | None:
        return ", ".join(map(str, self.seeds)) or None

    @property
    def training_text(self) -> str | None:
        """Recipe, epochs trained, and the epochs of the paper's recipe if that has another number."""
        other = self.recipe_paper if self.paper and self.recipe_paper != self.paper else None
        author = registry.load_registry().papers[other].citation if other else "paper"
        paper = f" ({author}: {self.paper_epochs})" if self.paper_epochs not in (None, self.epochs) else ""
        end = "; diverged" if self.diverged else "; converged" if self.converged else ""
        return self.recipe and f"{self.recipe}, {self.epochs_done} of {self.epochs} epochs{paper}{end}"


def rows(
    pattern: str = "*", *, task: str | None = None, cell: str | None = None, paper: str | None = None,
    measured: bool = False, results_of: ResultsOf = lambda name: [results.for_model(name)],
) -> list[Row]:  # fmt: skip
    """Return a row for each reported figure of the models that match, and one for each model that only we measured.

    paper: only figures of this paper. measured: only models that were measured. The rows are sorted by paper, table, task,
    cell, units and layers. Raises UnknownNameError.
    """
    papers = registry.load_registry().papers
    if paper is not None and paper not in papers:
        raise UnknownNameError("paper", paper, papers)
    selected = [
        row
        for name in registry.list_models(pattern, task=task, cell=cell)
        for row in _rows_of(name, results_of(name))
        if paper in (None, row.paper) and not (measured and row.measured is None)
    ]
    return sorted(selected, key=lambda r: (r.paper is None, r.paper, r.table, r.task, r.kind, r.units, r.layers))


def _rows_of(name: str, recorded: Sequence[results.Results]) -> list[Row]:
    entry = registry.find(name)
    spec, task = entry.model, entry.task
    metric = TARGETS[task.target].metric
    row = Row(
        model=name, kind=_kind(spec), layers=spec.layers, units=spec.units, task=spec.task, task_title=task.title,
        dataset=task.dataset, metric=metric, stand_in=entry.dataset.proxy_for,
    )  # fmt: skip
    rows = [
        _measured(
            replace(row, paper=f.paper, table=f.table, reported=round(f.percent / 100, 10), split=f.split),
            entry,
            recorded,
        )
        for f in spec.reported
    ]
    only_ours = _measured(replace(row, split="test"), entry, recorded)
    return rows or ([only_ours] if only_ours.runs else [])


def _measured(row: Row, entry: registry.Entry, recorded: Sequence[results.Results]) -> Row:
    """Return the row with the figure of the runs that were measured on its split, and with how the first was trained."""
    pairs = [(run, e) for run in recorded if (e := run.measured(row.split or "test")) is not None]
    if not pairs:
        return row
    values = [evaluation.value for _, evaluation in pairs]
    first, evaluation = pairs[0]
    row = replace(
        row, measured=statistics.fmean(values), std=statistics.stdev(values) if len(values) > 1 else None, n=evaluation.n,
        runs=len(values), seeds=tuple(e.seed for _, e in pairs if e.seed is not None), split=evaluation.split,
    )  # fmt: skip
    if training := first.training:
        _, base = base_recipe(entry, training)
        row = replace(
            row, recipe=training.recipe_name, epochs_done=training.epochs_done, epochs=training.recipe.epochs,
            paper_epochs=base.epochs if base and base.paper else None, recipe_paper=base.paper if base else None,
            diverged=training.diverged, converged=results.converged(training.history, training.recipe),
        )  # fmt: skip
    return row


@dataclass(frozen=True)
class Mean:
    """Mean figures of one architecture over the tasks of one dataset, with equal weights."""

    table: str | None
    kind: str
    tasks: int
    reported: float
    measured: float | None
    """Over the measured tasks."""
    measured_tasks: int
    reported_there: float | None
    """Mean of the reported figures over the measured tasks."""
    unit: Measure


def means(rows: Sequence[Row], min_tasks: int = 3) -> list[Mean]:
    """Return the means for each table and architecture with reported figures on at least `min_tasks` tasks of one dataset."""
    groups: dict[tuple[str | None, str, str, int, int], list[Row]] = {}
    for r in rows:
        if r.reported is not None:
            groups.setdefault((r.table, r.dataset, r.kind, r.layers, r.units), []).append(r)
    averages = []
    for (source, _, kind, layers, units), group in groups.items():
        done = [r for r in group if r.measured is not None]
        if len(group) >= min_tasks:
            name, reported = f"{kind}-{layers}x{units}", _mean([r.reported for r in group]) or 0.0
            measured, reported_there = _mean([r.measured for r in done]), _mean([r.reported for r in done])
            averages.append(
                Mean(source, name, len(group), reported, measured, len(done), reported_there, group[0].unit)
            )
    return averages


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _kind(spec: Model) -> str:
    return spec.prefix.rpartition("-")[0] + (f".{spec.tag}" if spec.tag else "")


def in_folder(folder: Path) -> ResultsOf:
    """Return the results of the runs below a folder, wherever they lie: each says of which model it is.

    Raises RequestError without such a folder, and CheckpointError for a damaged results.json.
    """
    if not folder.is_dir():
        raise RequestError(f"There is no folder {folder}.")
    runs: dict[str, list[results.Results]] = {}
    for path in sorted(folder.rglob(results.FILE)):
        found, _ = results.read_current(path.parent)
        names = [found.training.model] if found.training else [e.model for e in found.evaluations]
        for name in dict.fromkeys(names):
            runs.setdefault(name, []).append(found)
    return lambda name: runs.get(name, [])


def documents() -> list[str]:
    """The keys of the papers that report a figure of a model, sorted."""
    return sorted({figure.paper for model in registry.models().values() for figure in model.reported})


def digest(rows: Sequence[Row]) -> str:
    """Return sixteen hexadecimal digits that change with the content of a plot of these rows."""
    shown = [
        (
            r.model,
            r.paper,
            r.table,
            r.reported,
            r.measured,
            r.training_text,
            r.stand_in,
            *([] if r.std is None else [r.std]),
        )
        for r in rows
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
