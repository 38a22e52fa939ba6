"""Facts about every model, for the pages: from the registry, cards/lock.json, the recorded results and the benchmarks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from ... import registry
from ...cells.colours import cell_colour
from ...checkpoints import exported, figures, results
from ...checkpoints.results import Evaluation, Results
from ...registry import Entry
from ...registry.lock import Counts
from ...registry.metrics import METRICS, TARGETS
from .. import cards, comparison
from ..starters import STARTERS

SIZES = (20_000, 100_000, 500_000)
"""Upper bounds of the number of parameters that visitors can choose from in the table of models."""


def colour(name: str) -> str:
    """Return the colour of the cell whose name begins the model's name."""
    return cell_colour(name) or "#777777"


@dataclass(frozen=True)
class ModelFacts:
    """Facts about one model of the registry."""

    name: str
    entry: Entry
    recorded: Results
    count: Counts
    rows: Sequence[comparison.Row]
    """Its measured figures next to the reported ones, in the registry's order."""
    step_us: float | None
    """Microseconds of one time step in the fastest runtime outside Python; None if not measured."""

    @property
    def href(self) -> str:
        return f"models/{self.name}.html"

    @property
    def colour(self) -> str:
        return colour(self.entry.model.cell)

    @cached_property
    def measured(self) -> Evaluation | None:
        return self.recorded.measured()

    @cached_property
    def values(self) -> list[float]:
        """The measured figure of the weights; without weights, those of all runs by one recipe."""
        return [run.value for run in figures.shown(self.recorded.over_seeds(), self.entry.weights is not None)]

    @property
    def measured_text(self) -> str | None:
        return None if self.measured is None else METRICS[self.measured.metric].mean_text(self.values)

    @property
    def named_text(self) -> str | None:
        """The measured figure, after the word "error" if it is one without a unit."""
        bare = self.measured is not None and not METRICS[self.measured.metric].unit
        return f"error {self.measured_text}" if bare else self.measured_text

    @property
    def unit_title(self) -> str:
        """The title of the task's metric, such as "accuracy"."""
        return TARGETS[self.entry.task.target].title

    @property
    def is_accuracy(self) -> bool:
        return TARGETS[self.entry.task.target].metric == "accuracy"

    @property
    def quality(self) -> float | None:
        """The measured figure, scaled for display, and negated if lower is better, so that larger is always better."""
        if self.measured is None:
            return None
        return METRICS[self.measured.metric].quality(fmean(self.values))

    @property
    def reported_quality(self) -> float | None:
        """The first reported figure, as `quality` is of the measured one; None if there is none."""
        return next((row.measure.quality(row.reported) for row in self.rows if row.reported is not None), None)

    @property
    def compared(self) -> comparison.Row | None:
        """The first row whose two figures can be compared, with this model's own figure, not the mean over seeds; or None."""
        row = next((row for row in self.rows if row.difference is not None), None)
        own = row and self.recorded.measured(row.split or "test")
        return replace(row, measured=own.value) if row and own else None

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key of the table: starters, models with weights, measured ones, others; the best of a task first."""
        place = STARTERS.index(self.name) if self.name in STARTERS else len(STARTERS)
        rank = 0 if self.entry.weights else 1 if self.measured else 2
        return rank, place, self.entry.model.task, -(self.quality or -1e9), self.name


def every_model(figures: Iterable[comparison.Row] | None = None) -> list[ModelFacts]:
    """Return the facts of every model, in the order of the table. figures: `comparison.rows()`, if already computed."""
    rows: dict[str, list[comparison.Row]] = {}
    for row in comparison.rows() if figures is None else figures:
        rows.setdefault(row.model, []).append(row)
    steps: dict[str, float] = {}
    for kept in exported.read():
        if kept.step_us is not None:
            steps[kept.model] = min(kept.step_us, steps.get(kept.model, kept.step_us))
    models = [
        ModelFacts(
            name,
            registry.find(name),
            results.for_model(name),
            cards.counts(name),
            _in_order(name, rows.get(name, ())),
            steps.get(name),
        )
        for name in registry.models()
    ]
    return sorted(models, key=lambda model: model.order)


def _in_order(name: str, rows: Iterable[comparison.Row]) -> list[comparison.Row]:
    """Return the rows of a model in the order in which the registry has its reported figures."""
    tables = [(figure.paper, figure.table) for figure in registry.find(name).model.reported]
    return sorted(rows, key=lambda row: tables.index((row.paper, row.table)) if row.paper else 0)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Preset:
    """A frequent question, such as the best model of a task below a size, and the table's settings that answer it."""

    words: str
    query: str
    best: ModelFacts


def presets(models: Sequence[ModelFacts]) -> list[Preset]:
    """Return a preset for every task with several models with weights: the best one below a number of parameters."""
    tasks: dict[str, list[ModelFacts]] = {}
    for model in models:
        if model.entry.weights and model.quality is not None and model.entry.task.target == "class":
            tasks.setdefault(model.entry.model.task, []).append(model)
    chosen = []
    for task, group in sorted(tasks.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        small = [model for model in group if model.count.parameters < SIZES[1]]
        if len(group) >= 3 and len(small) >= 1:
            best = max(small, key=lambda model: model.quality or 0.0)
            query = f"?task={task}&size={SIZES[1]}&weights=1&sort=measured"
            chosen.append(Preset(f"best on {task} under {SIZES[1] // 1000}k parameters", query, best))
    return chosen
