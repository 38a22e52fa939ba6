"""Compares the figures that papers report with the figures that we measured.

Reads the registry and the recorded results, and returns rows. Does not import torch.
"""

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registry
from ..checkpoints import results
from ..errors import RequestError
from ..registry.metrics import METRICS, TARGETS, Measure, Metric
from ..registry.schema import Model
from ..utils.arguments import check_name
from ..utils.text import counted
from .training_text import base_recipe

ResultsOf = Callable[[str], Sequence[results.Results]]
"""A function that returns the results of a model by the model's name, one for each training run."""


@dataclass(frozen=True)
class Row:
    """A model with at most one reported figure (a paper's) and our measured figure."""

    model: str
    kind: str
    """Name of the row's curve in a plot: the cell, with `bi` or `conv` before it and a tag after it, if any."""
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
    runs: int = 0
    """Number of runs that were measured."""
    values: tuple[float, ...] = ()
    """The figures of the measured runs."""
    seeds: tuple[int, ...] = ()
    """Known seeds of the measured runs; if there are none, that of the first run that diverged."""
    split: str | None = None
    n: int | None = None
    """Number of examples that were measured."""
    recipe: str | None = None
    """Name of the recipe that the measured weights were trained by."""
    epochs_done: int | None = None
    """Of the first run."""
    epochs_of_each: tuple[int, ...] = ()
    """The epochs done in each run that has its own results.json."""
    epochs: int | None = None
    paper_epochs: int | None = None
    """Epochs of the paper's recipe, if `recipe` is a paper's or is based on one."""
    recipe_paper: str | None = None
    """Key of the paper that `paper_epochs` comes from."""
    converged: bool = False
    """True if the validation loss no longer fell, for as many epochs as the recipe's patience."""
    collapsed: int = 0
    """Number of measured runs that were stopped because the network stayed at the level of chance."""
    diverged_runs: int = 0
    """Number of further runs, which diverged and so were not measured."""
    diverged: int | None = None
    """The epoch in which training ended because the loss or a gradient was infinite or NaN; None if it did not."""
    diverged_step: int | None = None
    """The optimizer step in which that happened, if known."""
    trained_seed: int | None = None
    """The seed of the run that `recipe`, `epochs_done` and `diverged` describe."""
    stand_in: str | None = None
    """The paper's dataset if we use another dataset in its place, so that the two figures come from different test sets."""

    @property
    def std(self) -> float | None:
        """Standard deviation over the runs, if there are several (n - 1 in the denominator)."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The lowest and the highest figure of the runs, if there are several.

        Plots show it, since a run that collapsed puts the mean plus the standard deviation above what any run can reach.
        """
        return (min(self.values), max(self.values)) if len(self.values) > 1 else None

    @property
    def lost(self) -> bool:
        """True if the model's run diverged before there were weights to measure."""
        return self.measured is None and self.diverged is not None

    @property
    def has_run(self) -> bool:
        """True if the model was measured, or if its run was `lost`."""
        return self.measured is not None or self.lost

    @property
    def mixed(self) -> bool:
        """True if some of the runs collapsed and others did not. Of two such runs, a mean would say nothing."""
        return 0 < self.collapsed < self.runs

    @property
    def measure(self) -> Measure:
        return METRICS[self.metric]

    @property
    def difference(self) -> float | None:
        """The measured figure minus the reported one.

        None if one is missing, if they come from different test sets, or if some of the runs collapsed and others did not.
        """
        known = self.reported is not None and self.measured is not None and not self.stand_in and not self.mixed
        return self.measured - self.reported if known else None  # type: ignore[operator]

    @property
    def gain(self) -> float | None:
        """The difference, scaled for display, and negated if lower is better: above 0, ours is better."""
        return None if self.difference is None else self.measure.quality(self.difference)

    @property
    def difference_text(self) -> str | None:
        return None if self.difference is None else self.measure.difference(self.difference)

    @property
    def reported_text(self) -> str | None:
        note = " (training set)" if self.split == "train" else ""
        return None if self.reported is None else self.measure.printed(self.reported) + note

    @property
    def measured_text(self) -> str | None:
        note = f" (on a stand-in for {self.stand_in})" if self.stand_in else ""
        if self.lost:
            more = f"; {self.diverged_runs} more diverged" if self.diverged_runs else ""
            return f"diverged in {results.divergence(self.diverged, self.diverged_step)}{more}"
        if self.measured is None:
            return None
        return self.mean_text + note

    @property
    def mean_text(self) -> str:
        """The mean with its spread, or the figures of two runs of which one collapsed."""
        if self.span and self.mixed and self.runs == 2:
            low, high = map(self.measure.text, self.span)
            return f"{low} and {high}{self.spread_text}"
        return self.measure.text(self.measured or 0.0) + self.spread_text

    @property
    def spread_text(self) -> str:
        """Text to put after the mean: standard deviation, number of runs, number of failed runs; "" for one run."""
        if self.runs + self.diverged_runs < 2:
            return ""
        deviation = "" if self.std is None or (self.mixed and self.runs == 2) else f" ± {self.measure.text(self.std)}"
        counts = {"collapsed": self.collapsed, "diverged": self.diverged_runs}
        failed = "".join(f", {count} {word}" for word, count in counts.items() if count)
        return f"{deviation} ({counted(self.runs, 'run')}{failed})"

    @property
    def seed(self) -> int | None:
        """The seed of the measured run; None if there are several runs or the seed is unknown."""
        return self.seeds[0] if len(self.seeds) == 1 and self.runs <= 1 else None

    @property
    def seed_text(self) -> str | None:
        return ", ".join(map(str, self.seeds)) or None

    @property
    def training_text(self) -> str | None:
        """The recipe, the epochs trained and, if they differ from the recipe's, the epochs of the paper's recipe.

        Of several runs, it says how the first one ended.
        """
        other = self.recipe_paper if self.paper and self.recipe_paper != self.paper else None
        author = registry.load_registry().papers[other].citation if other else "paper"
        paper = f" ({author}: {self.paper_epochs})" if self.paper_epochs not in (None, self.epochs) else ""
        ends = {"diverged": self.diverged, "collapsed": self.collapsed and self.runs == 1}
        end = next((f"; {word}" for word, ended in ends.items() if ended), "")
        stopped = "stopped early after " if self.converged and not end and self.epochs_done != self.epochs else ""
        several = self.runs > 1 and self.trained_seed is not None
        whose = f"seed {self.trained_seed}: " if several and (end or stopped) else ""
        # of several runs, some of which collapsed, the first may have ended early and others not
        done = "up to" if self.mixed and self.epochs_done != self.epochs else f"{self.epochs_done} of"
        if len(set(self.epochs_of_each)) > 1 and not (end or stopped or self.mixed):
            done = f"{min(self.epochs_of_each)} to {max(self.epochs_of_each)} of"
        return self.recipe and f"{self.recipe}, {whose}{stopped}{done} {counted(self.epochs or 0, 'epoch')}{paper}{end}"


def rows(
    pattern: str = "*", *, task: str | None = None, cell: str | None = None, paper: str | None = None,
    measured: bool = False, results_of: ResultsOf = lambda name: [results.for_model(name)],
) -> list[Row]:  # fmt: skip
    """Return a row for each reported figure, and a row for each model that has only a measured figure.

    pattern, task, cell: select models, as in `registry.list_models`. paper: return only the figures of this paper.
    measured: return only models that have a run (see `Row.has_run`). results_of: returns the results of a model; by
    default, from cards/. The rows are sorted by paper, table, task, cell, units and layers. Raises UnknownNameError for an
    unknown paper, task or cell.
    """
    papers = registry.load_registry().papers
    if paper is not None:
        check_name("paper", paper, papers)
    selected = [
        row
        for name in registry.list_models(pattern, task=task, cell=cell)
        for runs in _by_recipe(results_of(name))
        for row in _rows_of(name, runs)
        if paper in (None, row.paper) and (row.has_run or not measured)
    ]
    return sorted(selected, key=lambda r: (r.paper is None, r.paper, r.table, r.task, r.kind, r.units, r.layers))


def _by_recipe(recorded: Sequence[results.Results]) -> list[list[results.Results]]:
    """Return a model's runs in groups of one recipe; a group has one run for each seed.

    Of runs with the same seed, the one that trained longest counts, and runs that are not finished only if all are not.
    """
    groups: dict[str, list[results.Results]] = {}
    for run in recorded:
        settings = run.training and run.training.settings
        groups.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    return [_of_each_seed(runs) for runs in groups.values()] or [[]]


def _of_each_seed(runs: Sequence[results.Results]) -> list[results.Results]:
    ended = [run for run in runs if run.training is None or run.training.finished or run.training.diverged] or runs
    farthest: dict[object, results.Results] = {}
    for run in sorted(ended, key=lambda run: run.training.epochs_done if run.training else 0):
        farthest[run.training.recipe.seed if run.training else id(run)] = run
    return [run for run in ended if any(run is one for one in farthest.values())]


def _rows_of(name: str, recorded: Sequence[results.Results]) -> list[Row]:
    entry = registry.find(name)
    spec, task = entry.model, entry.task
    metric = TARGETS[task.target].metric
    row = Row(
        model=name, kind=_kind(spec), layers=spec.layers, units=spec.units, task=spec.task, task_title=task.title,
        dataset=task.dataset, metric=metric, stand_in=entry.dataset.proxy_for,
    )  # fmt: skip
    reported = [replace(row, paper=f.paper, table=f.table, reported=f.value, split=f.split) for f in spec.reported]
    rows = [_measured(row, entry, recorded) for row in reported or [replace(row, split="test")]]
    return [row for row in rows if row.paper or row.has_run]


def _measured(row: Row, entry: registry.Entry, recorded: Sequence[results.Results]) -> Row:
    """Return a copy of `row` with the mean figure of its model's runs, and with the recipe and the epochs of the first run.

    entry: of the model. recorded: the results of each run.
    """
    split = row.split or "test"
    measured = [(run, e) for run in recorded if (e := run.measured(split)) is not None]
    # as of the seeds of a release: a run that diverged counts only if there is no other
    measured = [(run, e) for run, e in measured if not (run.training and run.training.diverged)] or measured
    lost = [
        (run, run.training) for run in recorded
        if run.training and run.training.diverged and not any(run is other for other, _ in measured)
    ]  # fmt: skip
    if not measured and not lost:
        return row
    if not measured:
        (_, training), *_ = lost
        more = len(lost) - 1 + sum(len(run.diverged_seeds) for run, _ in lost)
        return _trained(replace(row, seeds=(training.recipe.seed,), diverged_runs=more), entry, training)
    evaluations = [e for run, _ in measured for e in run.over_seeds(split)]
    values = [one.value for one in evaluations]
    first, evaluation = measured[0]
    row = replace(
        row, measured=statistics.fmean(values), n=evaluation.n, split=evaluation.split,
        runs=len(values), values=tuple(values), seeds=tuple(e.seed for e in evaluations if e.seed is not None),
        collapsed=sum(len(run.collapsed_seeds) + _collapsed(run) for run, _ in measured),
        diverged_runs=len(lost) + sum(len(run.diverged_seeds) + run.lost_first for run, _ in measured),
    )  # fmt: skip
    epochs_of_each = tuple(run.training.epochs_done for run, _ in measured if run.training)
    return _trained(replace(row, epochs_of_each=epochs_of_each), entry, first.training) if first.training else row


def _trained(row: Row, entry: registry.Entry, training: results.Training) -> Row:
    """Return a copy of `row` with the recipe and the epochs of a run of its model. entry: of the model."""
    _, base = base_recipe(entry, training)
    return replace(
        row, recipe=training.recipe_name, epochs_done=training.epochs_done, epochs=training.recipe.epochs,
        paper_epochs=base.epochs if base and base.paper else None, recipe_paper=base.paper if base else None,
        diverged=training.diverged, diverged_step=training.diverged_step, trained_seed=training.recipe.seed,
        converged=results.converged(training.history, training.recipe),
    )  # fmt: skip


def _collapsed(run: results.Results) -> bool:
    return run.training is not None and results.collapsed(run.training.history, run.training.recipe)


def shorter(rows: Sequence[Row]) -> list[Row]:
    """Return the measured rows whose training had fewer epochs than the paper's, and neither converged nor diverged."""
    measured = [row for row in rows if row.measured is not None and not (row.converged or row.diverged)]
    return [row for row in measured if (row.epochs_done or 0) < (row.paper_epochs or 0)]


def _kind(spec: Model) -> str:
    return spec.prefix.rpartition("-")[0] + (f".{spec.tag}" if spec.tag else "")


def in_folder(folder: Path) -> ResultsOf:
    """Read every results.json below `folder`; return a function that gives the results of a model by the model's name.

    Each results.json names its model. Raises RequestError if there is no such folder or no such file below it, and
    CheckpointError for a damaged results.json.
    """
    paths, runs = sorted(folder.rglob(results.FILE)), dict[str, list[results.Results]]()
    if not paths:
        missing = f"is no {results.FILE} below" if folder.is_dir() else "is no folder"
        raise RequestError(f"There {missing} {folder}. Give the folder that contains the training runs.")
    for path in paths:
        run, _ = results.read_current(path.parent)
        names = [run.training.model] if run.training else [e.model for e in run.evaluations]
        for name in dict.fromkeys(names):
            runs.setdefault(name, []).append(run)
    return lambda name: runs.get(name, [])


def reporting_papers() -> list[str]:
    """Return the keys of the papers that report a figure of a registered model, sorted."""
    return sorted({figure.paper for model in registry.models().values() for figure in model.reported})


def digest(rows: Sequence[Row]) -> str:
    """Return a digest, 16 hexadecimal digits, of the values that a plot of `rows` shows."""
    shown = [
        (
            r.model,
            r.paper,
            r.table,
            r.reported,
            r.measured,
            r.training_text,
            r.stand_in,
            r.values,
            r.runs,
            r.seeds,
            r.n,
            r.collapsed,
            r.diverged_runs,
        )
        for r in rows
    ]
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
