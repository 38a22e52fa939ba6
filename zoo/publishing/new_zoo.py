"""Creates a new zoo: a folder with a small, working registry to start from."""

from pathlib import Path
from typing import Any

from .. import registry
from ..errors import RequestError
from ..registry import lock
from ..registry.schema import Dataset, Model, Recipe, Spec, Task
from ..utils import files
from ..utils.arguments import check_name

TEMPLATE = Path(__file__).parent / "template"
FILES = ("registry.yaml", "waves.py")
MODEL = "gru-1x32-waves"
"""A model in the template's registry."""
FAMILIAR = ("gru", "lstm", "star", "rnn")
"""Cells of a model to begin with, the preferred one first."""


def create(folder: Path, task: str | None = None) -> tuple[list[Path], str]:
    """Write the files of a new zoo and an empty folder cards/ to `folder`; return the files, and the name of a model there.

    task: a task of the zoo in use, which the new zoo is to have, with its dataset and the recipe of one of its models. Without
    it, the zoo has the template's task of generated data.

    Raises UnknownNameError for an unknown task; RequestError, before anything is written, if one of the files exists already
    or `folder` is a file; and OSError if writing fails.
    """
    contents, model = {name: (TEMPLATE / name).read_bytes() for name in FILES}, MODEL
    if task is not None:
        contents, model = _with_task(task)
    if place := files.obstacle(folder):
        raise RequestError(f"{place} is a file, not a folder. Choose another name.")
    if there := [name for name in contents if (folder / name).exists()]:
        raise RequestError(f"{folder} has {' and '.join(there)} already; nothing was written. Choose another folder.")
    (folder / "cards").mkdir(parents=True, exist_ok=True)
    files.write_together(folder, contents)
    return [folder / name for name in contents], model


def _with_task(name: str) -> tuple[dict[str, bytes], str]:
    """Return the files of a zoo with this task of the zoo in use, and the name of its model."""
    import yaml

    known, locked = registry.load_registry(), lock.load_lock()
    check_name("task", name, known.all_tasks)
    task, model = known.all_tasks[name], _example(name)
    recipe, vectors = known.recipes[model.recipe], model.embedding.pretrained if model.embedding else None
    datasets = [task.dataset, *([vectors] if vectors else [])]
    sections: dict[str, Any] = {
        "papers": {},
        "datasets": {key: _fields(known.datasets[key], Dataset, "sha256") for key in datasets},
        "tasks": {name: _fields(task, Task)},
        "studies": {
            "first": {
                "title": "My first study",
                "recipes": {model.recipe: _fields(recipe, Recipe, "paper", "based_on", "deviation", "unspecified")},
                "models": {model.name: _fields(model, Model, "reported", "notes")},
            }
        },
    }
    heading = (TEMPLATE / "registry.yaml").read_text(encoding="utf-8").partition("\n\n")[0].replace(", in a minute", "")
    heading = heading.replace(MODEL, model.name)
    text = yaml.safe_dump(sections, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
    pins = lock.Lock(
        datasets={key: locked.datasets[key] for key in datasets if key in locked.datasets},
        splits={name: locked.splits[name]} if name in locked.splits else {},
    )
    return {"registry.yaml": f"{heading}\n\n{text}".encode(), "/".join(lock.FILE): lock.dump(pins)}, model.name


def _example(task: str) -> Model:
    """Return a model on `task` to begin with, without a tag: one with weights, of a familiar cell, and small, if there is."""

    def order(model: Model) -> tuple[bool, bool, int, int, str]:
        place = FAMILIAR.index(model.cell) if model.cell in FAMILIAR else len(FAMILIAR)
        return model.tag is not None, model.name not in weights, place, model.layers * model.units, model.name

    weights = lock.load_lock().weights
    chosen = min((model for model in registry.models().values() if model.task == task), key=order, default=None)
    if chosen is None:
        raise RequestError(
            f"No model of this zoo is for {task}, so there is no recipe to begin with. Choose another task."
        )
    return chosen.model_copy(update={"tag": None})


def _fields(spec: Spec, kind: type[Spec], *left_out: str) -> dict[str, Any]:
    """Return the fields of `spec` that are not at their defaults, as YAML has them, but those `left_out`."""
    fields = spec.model_dump(mode="json", exclude_defaults=True, exclude=set(left_out))
    return {field: fields[field] for field in kind.model_fields if field in fields}
