"""Reads registry.yaml, strictly: every fault is reported with file, line and column.

Refused, besides what zoo.registry.schema and zoo.registry.yaml refuse: files over 1 MB, names that do not equal the name
derived from the entry, and references to what is not there.
"""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..cells import cell_row
from ..errors import RegistryError, UnknownNameError
from . import yaml
from .schema import Registry
from .tasks import TASKS

MAX_BYTES = 1_000_000


def read(path: Path) -> Registry:
    """Read and validate a registry file; raises RegistryError naming the first fault's file, line and column."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise RegistryError(f"{path}: {size:,} bytes; a registry has at most {MAX_BYTES:,}.")
        document = yaml.parse(path.read_bytes().decode("utf-8"))
        registry = Registry.model_validate(document.content)
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8 at byte {error.start}.") from error
    except yaml.YamlError as error:
        raise RegistryError(f"{path}{error.where}: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = (*first["loc"], *first.get("ctx", {}).get("path", ()))
        text = first["msg"].removeprefix("Value error, ")
        raise RegistryError(f"{path}{document.where(location)}: {_dotted(location)}: {text}.") from error
    _Checks(path, document).check(registry)
    return registry


def _dotted(location: yaml.Path) -> str:
    return ".".join(map(str, location))


class _Checks:
    """What one entry alone cannot show: names are the derived ones and unique, and every reference leads somewhere."""

    def __init__(self, path: Path, document: yaml.Document):
        self.path, self.document = path, document

    def refuse(self, location: yaml.Path, problem: str) -> None:
        raise RegistryError(f"{self.path}{self.document.where(location)}: {_dotted(location)}: {problem}.")

    def refer(self, location: yaml.Path, table: dict[str, Any], kind: str, name: str | None) -> None:
        """Refuse a name that is not in its table."""
        if name is not None and name not in table:
            self.refuse(location, str(UnknownNameError(kind, name, table)).rstrip(".?"))

    def check(self, registry: Registry) -> None:
        for location, key in registry.duplicates():
            self.refuse(location, f"{key!r} is declared twice")
        for location, task in registry.placed_tasks():
            self.refer((*location, "dataset"), registry.datasets, "dataset", task.dataset)
            self.refer((*location, "family"), TASKS, "task family", None if ":" in task.family else task.family)
        recipes = registry.recipes
        for study, content in registry.studies.items():
            for key, recipe in content.recipes.items():
                location = ("studies", study, "recipes", key)
                self.refer((*location, "paper"), registry.papers, "paper", recipe.paper)
                self.refer((*location, "based_on"), recipes, "recipe", recipe.based_on)
                if recipe.based_on == key:
                    self.refuse((*location, "based_on"), "a recipe cannot be based on itself")
        self.check_models(registry)

    def check_models(self, registry: Registry) -> None:
        seen: set[str] = set()
        tasks, recipes = registry.all_tasks, registry.recipes
        for location, model in registry.placed_models():
            self.refer((*location, "task"), tasks, "task", model.task)
            self.refer((*location, "recipe"), recipes, "recipe", model.recipe)
            self.refer(location, registry.papers, "paper", cell_row(model.cell).paper)
            for figure in model.reported:
                self.refer((*location, "reported"), registry.papers, "paper", figure.paper)
            if problem := model.misfit(tasks[model.task]):
                self.refuse((*location, "task"), problem)
            if model.embedding:
                self.refer((*location, "embedding"), registry.datasets, "dataset", model.embedding.pretrained)
            if location[2] == "models" and location[3] != model.name:
                self.refuse(location, f"the name derived from this entry is {model.name!r}")
            if model.name in seen:
                self.refuse(location, f"{model.name!r} is declared twice")
            seen.add(model.name)
