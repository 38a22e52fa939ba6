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
from .schema import TASKS, Model, Registry
from .schema.base import first_fault

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
        location, text = first_fault(error)
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
        seen: set[tuple[str, str]] = set()
        for row in registry.declared:
            if (row.kind, row.name) in seen:
                self.refuse(row.location, f"{row.name!r} is declared twice")
            seen.add((row.kind, row.name))
            if row.kind == "task":
                self.refer((*row.location, "dataset"), registry.datasets, "dataset", row.value.dataset)
                family = None if ":" in row.value.family else row.value.family
                self.refer((*row.location, "family"), TASKS, "task family", family)
            if row.kind == "recipe":
                self.refer((*row.location, "paper"), registry.papers, "paper", row.value.paper)
                self.refer((*row.location, "based_on"), registry.recipes, "recipe", row.value.based_on)
                if row.value.based_on == row.name:
                    self.refuse((*row.location, "based_on"), "a recipe cannot be based on itself")
            if row.kind == "model":
                self.check_model(registry, row.location, row.value)

    def check_model(self, registry: Registry, location: yaml.Path, model: Model) -> None:
        self.refer((*location, "task"), registry.all_tasks, "task", model.task)
        self.refer((*location, "recipe"), registry.recipes, "recipe", model.recipe)
        self.refer(location, registry.papers, "paper", cell_row(model.cell).paper)
        for figure in model.reported:
            self.refer((*location, "reported"), registry.papers, "paper", figure.paper)
        if problem := model.misfit(registry.all_tasks[model.task]):
            self.refuse((*location, "task"), problem)
        if model.embedding:
            self.refer((*location, "embedding"), registry.datasets, "dataset", model.embedding.pretrained)
        if location[2] == "models" and location[3] != model.name:
            self.refuse(location, f"the name derived from this entry is {model.name!r}")
