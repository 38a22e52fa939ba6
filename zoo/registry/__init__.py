"""Reads registry.yaml, strictly and once: every fault is reported with file, line and column.

Refused, besides what the schema in zoo.registry.schema refuses: files over 1 MB, duplicate keys, anchors and aliases, names that do
not equal the name derived from the entry, references to what is not there.
"""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ..cells import cell_row
from ..errors import RegistryError, RequestError, UnknownNameError, first_problem
from ..utils import paths
from .schema import Config, Dataset, Interface, Model, Paper, Recipe, Registry, Task, Weights
from .tasks import TASKS

MAX_BYTES = 1_000_000
MAX_DEPTH = 20
TAGS = {f"tag:yaml.org,2002:{word}" for word in ("map", "seq", "str", "int", "float", "bool", "null")}


@dataclass(frozen=True)
class Entry:
    """A model of the registry with everything it refers to."""

    name: str
    model: Model
    task: Task
    dataset: Dataset
    recipe: Recipe
    documented: Recipe | None
    """The document's recipe, where `recipe` departs from one."""
    papers: dict[str, Paper]
    weights: Weights | None
    """The pin of its published checkpoint, if there is one."""

    @property
    def config(self) -> Config:
        interface = Interface.of(self.task)
        return Config(name=self.name, task=self.model.task, architecture=self.model.architecture, interface=interface)

    def worded(self, recipe: Recipe) -> Recipe:
        """A recorded recipe in the registry's words of today (what it follows, and why), if its settings are still those."""
        return self.recipe if recipe.settings == self.recipe.settings else recipe

    def recipe_with(self, overrides: dict[str, Any]) -> Recipe:
        """The recipe with some of its fields changed; raises RequestError if it cannot be changed to that."""
        try:
            return Recipe.model_validate({**self.recipe.model_dump(), **overrides})
        except ValidationError as error:
            raise RequestError(f"The recipe cannot be changed to that: {first_problem(error)}.") from error


def read(path: Path) -> Registry:
    """Read and validate a registry file; raises RegistryError naming the first fault's file, line and column."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise RegistryError(f"{path}: {size:,} bytes; a registry has at most {MAX_BYTES:,}.")
        raw = path.read_bytes()
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read ({error.strerror}).") from error
    yaml = YAML(typ="safe", pure=True)
    try:
        text = raw.decode("utf-8")
        root = yaml.compose(text)
        _refuse_odd_nodes(path, yaml, root)
        registry = Registry.model_validate(yaml.constructor.construct_document(root))
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8 at byte {error.start}.") from error
    except RecursionError as error:
        raise RegistryError(f"{path}: nested too deeply (more than {MAX_DEPTH} levels).") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise RegistryError(f"{where}: {error.problem or error.context}.") from error
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise RegistryError(f"{path}:{line}: character {error.character:#x} is not allowed.") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = (*first["loc"], *([first["ctx"]["key"]] if first["type"] == "unknown_key" else []))
        raise RegistryError(f"{_where(path, root, location)}: {first['msg'].removeprefix('Value error, ')}.") from error
    except (YAMLError, ValueError, OverflowError) as error:  # the last two: an escape beyond Unicode
        raise RegistryError(f"{path}: {error}.") from error
    _check_names(path, root, registry)
    return registry


def _refuse_odd_nodes(path: Path, yaml: YAML, node: Node | None, depth: int = 0) -> None:
    """Refuse anchors, depth, tags that JSON has not (merge keys, dates), and scalars that are not of their tag."""
    if node is None:
        raise RegistryError(f"{path}: empty.")
    where = f"{path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"
    if node.anchor is not None:
        raise RegistryError(f"{where}: anchors and aliases are not allowed; write the value out.")
    if depth > MAX_DEPTH:
        raise RegistryError(f"{where}: nested too deeply (more than {MAX_DEPTH} levels).")
    if node.tag not in TAGS:
        what = "the merge key <<" if str(node.tag).endswith(":merge") else f"tag {node.tag}"
        raise RegistryError(f"{where}: {what} is not allowed; quote it if it is a word.")
    if isinstance(node, ScalarNode):
        try:
            yaml.constructor.construct_object(node)
        except (ValueError, LookupError) as error:
            raise RegistryError(f"{where}: {node.value[:40]!r} is not of its type ({error}).") from error
    children = [c for pair in node.value for c in pair] if isinstance(node, MappingNode) else node.value
    for child in children if isinstance(node, MappingNode | SequenceNode) else ():
        _refuse_odd_nodes(path, yaml, child, depth + 1)


def _where(path: Path, node: Node, location: tuple[Any, ...]) -> str:
    """`file:line:column` of the deepest node that `location`, a path of keys and indices, leads to, and the path."""
    mark = node.start_mark
    for step in location:
        if isinstance(node, MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(step)]
            if not found:
                break
            mark, node = found[0][0].start_mark, found[0][1]
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            mark = node.start_mark
        else:
            break
    return f"{path}:{mark.line + 1}:{mark.column + 1}: {'.'.join(map(str, location))}"


def _check_names(path: Path, root: Node, registry: Registry) -> None:
    """Keys equal derived names, no name is declared twice, and every reference leads somewhere."""

    def refuse(location: tuple[Any, ...], problem: str) -> None:
        raise RegistryError(f"{_where(path, root, location)}: {problem}.")

    def refer(location: tuple[Any, ...], table: dict[str, Any], kind: str, name: str | None) -> None:
        if name is not None and name not in table:
            refuse(location, str(UnknownNameError(kind, name, table)).rstrip(".?"))

    for key, task in registry.tasks.items():
        refer(("tasks", key, "dataset"), registry.datasets, "dataset", task.dataset)
        refer(("tasks", key, "family"), TASKS, "task family", None if ":" in task.family else task.family)
    for key, recipe in registry.recipes.items():
        refer(("recipes", key, "paper"), registry.papers, "paper", recipe.paper)
        refer(("recipes", key, "follows"), registry.recipes, "recipe", recipe.follows)
        if recipe.follows == key:
            refuse(("recipes", key, "follows"), "a recipe cannot follow itself")
    seen: set[str] = set()
    for section, key, model in _models(registry):
        location = (section, key)
        refer((*location, "task"), registry.tasks, "task", model.task)
        refer((*location, "recipe"), registry.recipes, "recipe", model.recipe)
        refer(location, registry.papers, "paper", cell_row(model.cell).paper)
        for figure in model.reported:
            refer((*location, "reported"), registry.papers, "paper", figure.paper)
        if problem := model.misfit(registry.tasks[model.task]):
            refuse((*location, "task"), problem)
        if model.embedding:
            refer((*location, "embedding"), registry.datasets, "dataset", model.embedding.pretrained)
        if section == "models" and key != model.name:
            refuse(location, f"the name derived from this entry is {model.name!r}")
        if model.name in seen:
            refuse(location, f"{model.name!r} is declared twice")
        seen.add(model.name)
    for name in registry.weights:
        refer(("weights", name), dict.fromkeys(seen), "model", name)


def _models(registry: Registry) -> list[tuple[str, str, Model]]:
    single = [("models", key, model) for key, model in registry.models.items()]
    return single + [("grids", key, model) for key, grid in registry.grids.items() for model in grid.models()]


@cache
def registry() -> Registry:
    """The registry that comes with this installation."""
    return read(paths.path("registry.yaml"))


@cache
def models() -> dict[str, Model]:
    """Every model of the registry by name, grids expanded, sorted."""
    return dict(sorted((model.name, model) for _, _, model in _models(registry())))


def find(name: str) -> Entry:
    """The entry called `name`; raises UnknownNameError with near matches."""
    if name not in models():
        raise UnknownNameError("model", name, models(), "`rnnzoo list` shows them all.")
    model, everything = models()[name], registry()
    task, recipe = everything.tasks[model.task], everything.recipes[model.recipe]
    documented = everything.recipes[recipe.follows] if recipe.follows else None
    keys = [cell_row(model.cell).paper, *(figure.paper for figure in model.reported)]
    keys += [r.paper for r in (recipe, documented) if r is not None and r.paper is not None]
    papers = {key: everything.papers[key] for key in dict.fromkeys(keys)}
    dataset, weights = everything.datasets[task.dataset], everything.weights.get(name)
    return Entry(name, model, task, dataset, recipe, documented, papers, weights)


def list_models(
    pattern: str | Sequence[str] = "*", *, exclude: str | Sequence[str] = (), task: str | None = None,
    cell: str | None = None, pretrained: bool | None = None,
) -> list[str]:  # fmt: skip
    """Names of the models that match a shell-style pattern, or one of several, sorted.

    exclude: patterns of models to leave out. task, cell: only models of this task or cell (UnknownNameError if there is
    no such). pretrained: only models with (True) or without (False) published weights.
    """
    tasks = registry().tasks
    if task is not None and task not in tasks:
        raise UnknownNameError("task", task, tasks)
    if cell is not None:
        cell_row(cell)
    wanted, unwanted = ((each,) if isinstance(each, str) else tuple(each) for each in (pattern, exclude))
    return [
        name
        for name, model in models().items()
        if any(fnmatch.fnmatchcase(name, each) for each in wanted)
        and not any(fnmatch.fnmatchcase(name, each) for each in unwanted)
        and task in (None, model.task)
        and cell in (None, model.cell)
        and pretrained in (None, name in registry().weights)
    ]
