"""The registry in use: every model with the task, recipe, dataset and papers that the model names.

The registry is read once, at its first use.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import ValidationError

from ..cells import cell_row
from ..cells.properties import cells_with
from ..errors import CheckpointError, RequestError, UnknownNameError, faults, shown
from ..utils import paths
from ..utils.arguments import check_name, matching, plain, text_of, texts_of
from . import index, lock, reader
from .schema import PACKAGE_NAMESPACE, Config, Dataset, Interface, Model, Paper, Pin, Recipe, Registry, Task


@dataclass(frozen=True)
class Entry:
    """A model of the registry, with everything that the model refers to."""

    name: str
    model: Model
    task: Task
    dataset: Dataset
    recipe: Recipe
    documented: Recipe | None
    """The paper's recipe that `recipe` differs from; None if there is none."""
    papers: dict[str, Paper]
    weights: Pin | None
    """The pin of the model's published checkpoint; None if there is none."""

    @property
    def config(self) -> Config:
        # a checkpoint of another zoo than the package has the names of its classes, which others do not know by the task
        interface = Interface.from_task(self.task, named=load_registry().namespace != PACKAGE_NAMESPACE)
        return Config(name=self.name, task=self.model.task, architecture=self.model.architecture, interface=interface)

    def required_pin(self, verb: str) -> Pin:
        """Return the pin of the weights. Raises CheckpointError if there is none. verb: what they are for, such as "push"."""
        if self.weights is None:
            raise CheckpointError(f"{self.name} has no weights to {verb}. To train it: rnnzoo train {self.name}")
        return self.weights

    def with_reasons(self, recipe: Recipe) -> Recipe:
        """Return the registry's recipe if it has the same settings as `recipe`, else `recipe`.

        The registry's recipe may give newer reasons for its settings.
        """
        return self.recipe if recipe.settings == self.recipe.settings else recipe

    def recipe_with(self, overrides: dict[str, Any]) -> Recipe:
        """Return the recipe with new values, by field, from `overrides`. Raises RequestError for values that it cannot have."""
        if not isinstance(overrides, dict):
            raise RequestError(f"The changes to a recipe are a dict of fields; got {shown(overrides)}.")
        try:
            return Recipe.model_validate({**self.recipe.model_dump(), **overrides})
        except ValidationError as error:
            raise RequestError(f"The recipe of {self.name} cannot have these settings: {faults(error)}") from error


@cache
def load_registry() -> Registry:
    """Return the registry of the zoo in use, with the digests of datasets from the lock."""
    registry, digests = reader.read(paths.path("registry.yaml")), lock.load_lock().datasets
    datasets = {k: d.model_copy(update={"sha256": digests.get(k, {})}) for k, d in registry.datasets.items()}
    return registry.model_copy(update={"datasets": datasets})


def models() -> dict[str, Model]:
    """Return every model of the registry by name, grids expanded, sorted."""
    return load_registry().models


def clear_caches() -> None:
    """Forget the registry and the lock, so that their next use reads them again. Call this if a file or paths.ROOT changed."""
    for cached in (load_registry, lock.load_lock):
        cached.cache_clear()


def summaries() -> dict[str, index.Summary]:
    """Return the summary of every model by name, sorted.

    The summaries come from the lock's index, which is read anew at each call, or, if registry.yaml has changed since the index
    was made, from registry.yaml.
    """
    if (indexed := index.read()) is not None:
        return indexed
    return index.summaries(lock.load_lock().model_copy(update={"index": build_index()}).model_dump())


def build_index() -> lock.Index:
    """Return a new index of registry.yaml, for the lock."""
    tasks = load_registry().all_tasks
    rows = {
        name: lock.IndexedModel(
            cell=model.cell, task=model.task, target=tasks[model.task].target,
            reported_percent=tuple(f.percent for f in model.reported if f.percent is not None), reported_text=model.reported_text,
        )
        for name, model in models().items()
    }  # fmt: skip
    return lock.Index(registry_sha256=index.registry_sha256(), models=rows)


def find(name: str) -> Entry:
    """Return the entry of the model called `name`. Raises UnknownNameError, whose message suggests similar names."""
    if text_of("The name of a model", name) not in models():
        raise unknown_model(name)
    model, registry = models()[name], load_registry()
    task, recipe = registry.all_tasks[model.task], registry.recipes[model.recipe]
    documented = registry.recipes[recipe.based_on] if recipe.based_on else None
    keys = [cell_row(model.cell).paper, *(figure.paper for figure in model.reported)]
    keys += [r.paper for r in (recipe, documented) if r is not None and r.paper is not None]
    papers = {key: registry.papers[key] for key in dict.fromkeys(keys)}
    dataset, weights = registry.datasets[task.dataset], lock.load_lock().weights.get(name)
    return Entry(name, model, task, dataset, recipe, documented, papers, weights)


def unknown_model(
    name: str, hint: str = "`rnnzoo list` shows every model.", more: Iterable[str] = ()
) -> UnknownNameError:
    """Return the error for a name that no model has, or a pattern that matches none; it suggests similar names.

    hint: ends the message. more: names, besides those of models, that would be valid and may be suggested.
    """
    return UnknownNameError("model", name, [*summaries(), *more], hint)


def list_models(
    pattern: str | Sequence[str] = "*", *, exclude: str | Sequence[str] = (), task: str | None = None,
    cell: str | None = None, pretrained: bool | None = None,
) -> list[str]:  # fmt: skip
    """Return the names, sorted, of the models that match a shell-style pattern, or one of several patterns.

    exclude: patterns of models to leave out. task, cell: return only models of this task or with this cell. pretrained:
    return only models with (True) or without (False) published weights. Raises UnknownNameError for an unknown task or
    cell.
    """
    known, pretrained = summaries(), _checked_pretrained(pretrained)
    if task is not None and all(model.task != task for model in known.values()):
        check_name("task", task, load_registry().all_tasks)
    if cell is not None and all(model.cell != cell for model in known.values()):
        load_registry()  # which may declare the cell
        cell_row(cell)
    return index.select(known, pattern, exclude, task, cell, pretrained)


def list_cells(
    pattern: str | Sequence[str] = "*", *, exclude: str | Sequence[str] = (), properties: Sequence[str] = (),
    pretrained: bool | None = None,
) -> list[str]:  # fmt: skip
    """Return the names of the cells that match a pattern, as for `list_models`. `mlp`, which has no time steps, counts as a cell.

    properties: only cells that have all of these (the keys of zoo.cells.properties.PROPERTIES); raises UnknownNameError for
    another word. pretrained: only cells of which some model has (True), or none has (False), published weights.
    """
    pretrained = _checked_pretrained(pretrained)
    load_registry()  # whose own cells are rows of CELLS from then on
    with_weights = {model.cell for model in summaries().values() if model.pretrained}
    cells = matching(sorted(cells_with(*texts_of("A property", properties))), pattern, exclude)
    return [name for name in cells if pretrained in (None, name in with_weights)]


def list_tasks(
    pattern: str | Sequence[str] = "*", *, exclude: str | Sequence[str] = (), pretrained: bool | None = None
) -> list[str]:
    """Return the names of the tasks that match a pattern, as for `list_models`.

    pretrained: only tasks for which some model has (True), or none has (False), published weights.
    """
    pretrained = _checked_pretrained(pretrained)
    with_weights = {model.task for model in summaries().values() if model.pretrained}
    tasks = matching(sorted(load_registry().all_tasks), pattern, exclude)
    return [name for name in tasks if pretrained in (None, name in with_weights)]


def _checked_pretrained(value: object) -> bool | None:
    """Return `value`, True, False or None. Raises RequestError for others."""
    given = plain(value)
    if given is not None and not isinstance(given, bool):
        raise RequestError(f"pretrained must be True, False or None; got {shown(value)}.")
    return given
