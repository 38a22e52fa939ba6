"""Reads the files registry.yaml and sources.yaml, validates them against the schema, and reports every fault with its place.

`yaml` parses the text and finds the line and column of every value. Besides what the schema and `yaml` refuse, this module
refuses files over 1 MB, sections that both files have, models whose key differs from the name derived from their fields, and
references to tasks, recipes, papers and datasets that do not exist.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..cells import cell_row, own
from ..cells.rows import CellRow
from ..errors import RegistryError, UnknownNameError
from ..utils import files, paths
from . import yaml
from .metrics import TARGETS, Metric
from .schema import TASKS, Model, Paper, Registry, Task
from .schema.cells import OwnCell
from .schema.faults import Fault, all_faults

MAX_BYTES = 1_000_000
MAX_FAULTS = 20
"""Maximum number of faults that a message lists."""
PRINTED_IN: dict[Metric, str] = {"accuracy": "percent", "nll": "nats", "cross_entropy": "nats"}
"""By a task's metric: the field of Reported that holds the paper's figure. There is no field for a squared error."""


@dataclass(frozen=True)
class _File:
    """registry.yaml or sources.yaml, parsed. Its top-level keys are sections of the registry."""

    path: Path
    document: yaml.Document

    def has(self, location: yaml.Path) -> bool:
        """Return whether this file has the section that `location` begins with."""
        return bool(location) and (location[0],) in self.document.marks

    def where(self, location: yaml.Path) -> str:
        """Return `file:line:column` of the value that the keys in `location` lead to."""
        return f"{self.path}{self.document.where(location)}"


def sources(path: Path) -> Path:
    """Return the path of sources.yaml beside the registry file `path`; this optional file has some of the sections."""
    return path.with_name("sources.yaml")


def read(path: Path) -> Registry:
    """Return the content of a registry file, and of a sources.yaml beside it, validated.

    If neither declares the paper of a cell, the paper comes from the sources.yaml of the package. Raises RegistryError
    with the file, line and column of every fault. The cells that the registry declares are then rows of CELLS, and those of
    the registry read before are not.
    """
    parts = [_File(path, _parse(path))]
    if sources(path).exists():
        parts.append(_File(sources(path), _parse(sources(path))))
    sections = _merged(parts)
    own.declare(_own_cells(sections))  # which the models of the file may name
    try:
        registry = Registry.model_validate(sections)
    except ValidationError as error:
        raise _refusal(parts, all_faults(error)) from error
    cited = {cell_row(row.value.cell).paper for row in registry.declared if row.kind == "model"}
    cited |= {cell.paper for cell in registry.cells.values()}
    if missing := cited - registry.papers.keys():
        registry = registry.model_copy(update={"papers": {**_packaged_papers(missing), **registry.papers}})
    if faults := list(dict.fromkeys(_reference_faults(registry))):
        raise _refusal(parts, faults)
    return registry


def _merged(parts: Sequence[_File]) -> dict[str, Any]:
    """Return the sections of all files by name. Raises RegistryError for a file without any, or a section in two files."""
    sections: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part.document.content, dict):
            raise RegistryError(f"{part.where(())}: the file should be a table of keys such as `studies`.")
        if twice := sections.keys() & part.document.content.keys():
            section = min(twice)
            raise RegistryError(f"{part.where((section,))}: {section}: also in {parts[0].path.name}; keep one of them.")
        sections |= part.document.content
    return sections


def _own_cells(sections: Mapping[str, Any]) -> dict[str, CellRow]:
    """Return the rows of the cells that a registry declares: those that are valid and whose names are not taken."""
    declared = sections.get("cells")
    rows = {}
    for name, fields in declared.items() if isinstance(declared, dict) else ():
        with suppress(ValidationError):  # Registry reports it
            rows[name] = OwnCell.model_validate(fields).row
    return {name: row for name, row in rows.items() if not own.is_taken(name)}


def _parse(path: Path) -> yaml.Document:
    try:
        return yaml.parse(files.read_regular(path, MAX_BYTES).decode("utf-8"))
    except FileNotFoundError as error:
        raise RegistryError(f"{path}: this file does not exist. `rnnzoo init` writes a registry.") from error
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise RegistryError(f"{path}: not UTF-8 text (see byte {error.start}). Save the file as UTF-8.") from error
    except yaml.YamlError as error:
        raise RegistryError(f"{path}{error.where}: {error}.") from error


def _packaged_papers(keys: Iterable[str]) -> dict[str, Paper]:
    """Return, by key, those papers of the package's sources.yaml whose key is one of `keys`."""
    packaged = _parse(sources(paths.PACKAGED_ROOT / "registry.yaml")).content["papers"]
    return {key: Paper.model_validate(packaged[key]) for key in sorted(keys) if key in packaged}


def _refusal(parts: Sequence[_File], faults: Sequence[Fault]) -> RegistryError:
    """Return the error that lists faults, each with its `file:line:column`, in the order of `parts`, which are the files."""
    places = {location: next((part for part in parts if part.has(location)), parts[0]) for location, _ in faults}

    def order(fault: Fault) -> tuple[int, int, int]:
        part = places[fault[0]]
        mark = part.document.mark(fault[0])
        return parts.index(part), mark.line, mark.column

    lines = [
        f"{places[location].where(location)}: {_dotted(location)}{text}{'' if text[-1] in '.?' else '.'}"
        for location, text in sorted(faults, key=order)[:MAX_FAULTS]
    ]
    more = len(faults) - MAX_FAULTS
    return RegistryError("\n".join([*lines, *([f"{parts[0].path}: and {more} more faults."] if more > 0 else [])]))


def _reference_faults(registry: Registry) -> Iterator[Fault]:
    """Yield a fault for each name declared twice, name of a model other than the derived one, and reference to nothing."""
    for name, cell in registry.cells.items():
        if own.is_taken(name):
            yield ("cells", name), f"there is a cell called {name!r} already; choose another name"
        yield from _reference(("cells", name, "paper"), registry.papers, "paper", cell.paper)
    seen: set[tuple[str, str]] = set()
    for row in registry.declared:
        place, value = row.location, row.value
        if (row.kind, row.name) in seen:
            yield place, f"{row.name!r} is declared twice"
        seen.add((row.kind, row.name))
        if row.kind == "task":
            yield from _reference((*place, "dataset"), registry.datasets, "dataset", value.dataset)
            yield from _reference(
                (*place, "family"), TASKS, "task family", None if ":" in value.family else value.family
            )
        if row.kind == "recipe":
            yield from _reference((*place, "paper"), registry.papers, "paper", value.paper)
            yield from _reference((*place, "based_on"), registry.recipes, "recipe", value.based_on)
            if value.based_on == row.name:
                yield (*place, "based_on"), "a recipe cannot be based on itself"
        if row.kind == "model":
            yield from _model_faults(registry, place, value)
    for index, table in enumerate(registry.literature):
        yield from _reference(("literature", index, "paper"), registry.papers, "paper", table.paper)
        for task in table.tasks:
            yield from _reference(("literature", index, "tasks"), registry.all_tasks, "task", task)
            if task in registry.all_tasks:
                given = "nats" if table.nats else "percent"
                yield from _unit_fault(("literature", index), registry.all_tasks[task], task, given)


def _unit_fault(place: yaml.Path, task: Task, name: str, given: str) -> Iterator[Fault]:
    """Yield a fault if the metric of a task is not printed in the unit `given`, "percent" or "nats". name: of the task."""
    measure = TARGETS[task.target]
    if given != PRINTED_IN.get(measure.metric):
        yield place, f"{name!r} is measured by {measure.title}, which is not in {given!r}"


def _model_faults(registry: Registry, place: yaml.Path, model: Model) -> Iterator[Fault]:
    yield from _reference((*place, "task"), registry.all_tasks, "task", model.task)
    yield from _reference((*place, "recipe"), registry.recipes, "recipe", model.recipe)
    yield from _reference(place, registry.papers, "paper", cell_row(model.cell).paper)
    for figure in model.reported:
        yield from _reference((*place, "reported"), registry.papers, "paper", figure.paper)
    if task := registry.all_tasks.get(model.task):
        for figure in model.reported:
            given = "percent" if figure.nats is None else "nats"
            yield from _unit_fault((*place, "reported"), task, model.task, given)
        if problem := model.misfit(task):
            yield (*place, "task"), problem
    if model.embedding:
        yield from _reference((*place, "embedding"), registry.datasets, "dataset", model.embedding.pretrained)
    if place[2] == "models" and place[3] != model.name:
        yield place, f"the name derived from this entry is {model.name!r}; use it as the key"


def _reference(place: yaml.Path, table: Mapping[str, Any], kind: str, name: str | None) -> Iterator[Fault]:
    """Yield a fault if `table` lacks the key `name`. If `name` is None, there is nothing to check.

    place: the keys that lead to the reference in the file. kind: what `name` names, such as "task", for the message.
    """
    if name is not None and name not in table:
        yield place, str(UnknownNameError(kind, name, table))


def _dotted(location: yaml.Path) -> str:
    """Return the keys in `location`, joined by dots, as the beginning of a message; "" for the whole file."""
    return f"{'.'.join(map(str, location))}: " if location else ""
