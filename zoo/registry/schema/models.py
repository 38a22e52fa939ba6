"""Models and grids of models, the figures that papers report for them, studies, and the whole registry."""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from .base import (
    Commit,
    Count,
    Key,
    Layers,
    Namespace,
    Percent,
    Positive,
    Rate,
    Repo,
    Seq,
    Sha256,
    Some,
    Spec,
    Text,
    fraction,
)  # fmt: skip
from .blocks import BlockSpec
from .cells import CellName, OwnCell
from .data import Dataset, Paper, Task
from .faults import all_faults, refusal
from .literature import LiteratureTable
from .networks import Architecture, ConvHead, Embedding, Init, Kernel, Merge
from .recipes import Recipe

MAX_MODELS = 5000
"""Maximum number of models in one grid."""
PACKAGE_NAMESPACE = "rnnzoo"
"""The organisation on the Hub with the models that every rnnzoo knows by name."""
Tag = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")]


class Reported(Spec):
    """A figure that a paper prints, and the table that prints it."""

    paper: Key
    table: Text
    percent: Percent | None = None
    """Accuracy in percent, as printed."""
    nats: Positive | None = None
    """Negative log-likelihood in nats, as printed, in place of an accuracy."""
    split: Literal["train", "test"] = "test"
    """The split that the paper measured on."""

    def _problems(self) -> Iterator[str]:
        if (self.percent is None) == (self.nats is None):
            yield "a figure is either an accuracy, 'percent', or a likelihood, 'nats'; give one of the two"

    @property
    def value(self) -> float:
        """The figure in the unit of results.json, where an accuracy is a fraction."""
        return fraction(self.percent) if self.nats is None else self.nats  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """The figure with its unit, as printed."""
        return f"{self.percent:g} %" if self.nats is None else f"{self.nats:g} nats"


FileName = Annotated[str, Field(pattern=r"^(model\.safetensors|config\.json|vocabulary\.txt|check\.safetensors)$")]


ExportName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*\.(onnx|pt2|xml|bin|pte|h|wasm)$")]


class PinnedFile(Spec):
    """The digest of a file, and its size in bytes."""

    sha256: Sha256
    size: Annotated[int, Field(ge=1, le=10**9)]


class Pin(Spec):
    """The pin of a checkpoint: the digest and the size that each of its files must have, wherever the file comes from."""

    repo: Repo
    revision: Commit | None = None
    """Full commit on the Hub; None while only the packaged copy exists."""
    replaces: Commit | None = None
    """The last published commit, required parent of the next push; None if nothing was published."""
    files: dict[FileName, PinnedFile]
    """By name: model.safetensors, config.json, vocabulary.txt (of a network that reads text), check.safetensors (golden outputs)."""

    exports: dict[ExportName, PinnedFile] | None = None
    """Files of the same weights for other runtimes (zoo.exports). A push sends them; `load` does not need them."""

    @property
    def every_file(self) -> dict[str, PinnedFile]:
        """The files of the checkpoint and its exports."""
        return {**self.files, **(self.exports or {})}

    def _problems(self) -> Iterator[str]:
        if not {"model.safetensors", "config.json"} <= set(self.files):
            yield "'files' must pin both model.safetensors and config.json"

    def followed_by(self, files: dict[str, PinnedFile]) -> "Pin":
        """Return a pin of new, unpublished `files` in the same repository. The new pin replaces this one."""
        return Pin(repo=self.repo, replaces=self.revision or self.replaces, files=files)


class Model(Architecture):
    """One entry of the registry: an architecture on a task."""

    task: Key
    tag: Tag | None = None
    """The last part of a name. It distinguishes models of one architecture and task whose recipe or initialiser differs."""
    recipe: Key
    reported: Seq[Reported] = ()
    notes: Text | None = None
    """What a reader of the card must know, such as deviations from the paper."""

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.task}" + (f".{self.tag}" if self.tag else "")

    @property
    def architecture(self) -> Architecture:
        return Architecture(**{field: getattr(self, field) for field in Architecture.model_fields})

    @property
    def reported_text(self) -> str | None:
        """The figures reported on the test set as text, without repetitions; None if there are none."""
        return ", ".join(dict.fromkeys(r.text for r in self.reported if r.split == "test")) or None


class ReportedTable(Spec):
    """A paper's table: for each task and `LAYERSxUNITS`, one figure for each cell of the grid (null: not in the table)."""

    paper: Key
    table: Text
    split: Literal["train", "test"] = "test"
    percent: dict[Key, dict[Annotated[str, Field(pattern=r"^[1-9]\d*x[1-9]\d*$")], Seq[Percent | None]]]


class Variant(Spec):
    """The fields in which the models of one tag differ from the grid. None keeps the grid's value."""

    options: dict[str, Any] | None = None
    init: Init | None = None
    recipe: Key | None = None


class Grid(Spec):
    """A family of models: every combination of `cell`, `bidirectional`, `layers`, `units`, `task` and `variants`."""

    cell: Some[Key]
    layers: Some[Layers]
    units: Some[Count]
    task: Some[Key]
    recipe: Key
    bidirectional: Some[Merge | None] = (None,)
    kernel: Kernel | None = None
    embedding: Embedding | None = None
    head: ConvHead | None = None
    block: BlockSpec | None = None
    dropout: Rate = 0.0
    options: dict[str, Any] = {}
    init: Init = Init()
    standardize: bool = False
    notes: Text | None = None
    variants: Annotated[dict[Tag, Variant], Field(max_length=32)] = {}
    """Overrides by tag; empty for a grid of models without tags."""
    reported: Seq[ReportedTable] = ()
    """Figures of the models with one direction and no tag."""

    @cached_property
    def models(self) -> list[Model]:
        """The models of the grid, one for each combination, each with its figures in `reported`."""
        return [
            Model(
                cell=cell, layers=layers, units=units, task=task, tag=tag, recipe=variant.recipe or self.recipe,
                init=variant.init or self.init, options=self.options if variant.options is None else variant.options,
                bidirectional=merge, kernel=self.kernel, embedding=self.embedding, head=self.head, standardize=self.standardize,
                block=self.block, dropout=self.dropout, notes=self.notes,
                reported=() if merge or tag else tuple(self._reported(column, f"{layers}x{units}", task)),
            )
            for task in self.task for column, cell in enumerate(self.cell) for merge in self.bidirectional
            for layers in self.layers for units in self.units for tag, variant in self._tagged_variants()
        ]  # fmt: skip

    def _tagged_variants(self) -> list[tuple[str | None, Variant]]:
        return [*self.variants.items()] or [(None, Variant())]

    def _reported(self, column: int, row: str, task: str) -> list[Reported]:
        rows = ((table, table.percent.get(task, {}).get(row, ())) for table in self.reported)
        figures = ((table, figures[column]) for table, figures in rows if figures)
        return [
            Reported(paper=table.paper, table=table.table, split=table.split, percent=float(percent))
            for table, percent in figures
            if percent is not None
        ]

    @model_validator(mode="after")
    def _models_are_whole(self) -> "Grid":
        try:
            self.models  # noqa: B018 (it is computed once, here)
        except ValidationError as error:
            raise refusal("Grid", all_faults(error)) from error
        return self

    def _problems(self) -> Iterator[str]:
        axes = (self.cell, self.layers, self.units, self.task, self.bidirectional, self._tagged_variants())
        if (models := math.prod(map(len, axes))) > MAX_MODELS:
            yield f"the grid has {models:,} models; at most {MAX_MODELS:,} are allowed"
        if self.reported and (self.variants or not any(merge is None for merge in self.bidirectional)):
            yield "figures in 'reported' are of networks of one direction without a tag, which the grid does not have"
        for table in self.reported:
            for task, rows in table.percent.items():
                if task not in self.task:
                    yield f"{table.table}: the task {task!r} is not among the tasks of the grid: {', '.join(self.task)}"
                for row, figures in rows.items():
                    layers, units = map(int, row.split("x"))
                    if layers not in self.layers or units not in self.units or len(figures) != len(self.cell):
                        yield (
                            f"{table.table}, {task}: the row {row!r} does not fit the grid: its layers and units must be "
                            f"those of the grid, and it needs {len(self.cell)} figures, one for each cell, not {len(figures)}"
                        )


class Study(Spec):
    """Models that belong together, the recipes that train them, and the figures that papers report for them."""

    title: Text
    recipes: dict[Key, Recipe] = {}
    models: dict[Key, Model] = {}
    grids: dict[Key, Grid] = {}


class TaskGrid(Spec):
    """Tasks that share most of their fields. `tasks` has the fields that each task adds or changes."""

    shared: dict[str, Any]
    tasks: dict[Key, dict[str, Any]]

    @cached_property
    def expanded(self) -> dict[str, Task]:
        """Every task of the grid by name, with the shared fields filled in."""
        tasks, faults = {}, dict[tuple[int | str, ...], str]()
        for name, own in self.tasks.items():
            try:
                tasks[name] = Task.model_validate({**self.shared, **own})
            except ValidationError as error:
                for field, message in all_faults(error):
                    shared = field and field[0] in self.shared and field[0] not in own
                    faults[("shared", *field) if shared else ("tasks", name, *field)] = message
        if faults:
            raise refusal("TaskGrid", faults.items())
        return tasks

    @model_validator(mode="after")
    def _tasks_are_whole(self) -> "TaskGrid":
        self.expanded  # noqa: B018 (it is computed once, here)
        return self


class Declared(NamedTuple):
    """A task, recipe, grid or model of the registry: kind, name, and the keys that lead to it in the file."""

    kind: Literal["task", "recipe", "grid", "model"]
    name: str
    location: tuple[str, ...]
    value: Any


class Registry(Spec):
    """The content of registry.yaml and sources.yaml."""

    license: Text | None = None  # SPDX identifier, of the weights of all models; None: the cards state none
    namespace: Namespace | None = None  # user or organisation of the Hub whose repositories have the weights
    papers: dict[Key, Paper] = {}
    datasets: dict[Key, Dataset]
    cells: dict[CellName, OwnCell] = {}
    tasks: dict[Key, Task] = {}
    task_grids: dict[Key, TaskGrid] = {}
    literature: Seq[LiteratureTable] = ()
    studies: dict[Key, Study]

    @cached_property
    def declared(self) -> list[Declared]:
        """Every task, recipe, grid and model, including each task and model that a grid declares."""
        rows = [Declared("task", name, ("tasks", name), task) for name, task in self.tasks.items()]
        for key, grid in self.task_grids.items():
            rows += [Declared("task", name, ("task_grids", key, "tasks", name), t) for name, t in grid.expanded.items()]
        for key, study in self.studies.items():
            place = ("studies", key)
            rows += [Declared("recipe", name, (*place, "recipes", name), r) for name, r in study.recipes.items()]
            rows += [Declared("model", m.name, (*place, "models", name), m) for name, m in study.models.items()]
            for name, models in study.grids.items():
                rows.append(Declared("grid", name, (*place, "grids", name), models))
                rows += [Declared("model", m.name, (*place, "grids", name), m) for m in models.models]
        return rows

    @cached_property
    def all_tasks(self) -> dict[str, Task]:
        """Every task by name, including those of grids."""
        return {row.name: row.value for row in self.declared if row.kind == "task"}

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """Every recipe by name."""
        return {row.name: row.value for row in self.declared if row.kind == "recipe"}

    @cached_property
    def models(self) -> dict[str, Model]:
        """Every model by name, including those of grids, sorted."""
        return dict(sorted((row.name, row.value) for row in self.declared if row.kind == "model"))
