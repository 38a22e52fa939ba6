"""`rnnzoo list` and `rnnzoo show`: what there is. Neither imports torch."""

import fnmatch
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo import registry
from zoo.checkpoints import configs, results
from zoo.checkpoints.hub import browse
from zoo.checkpoints.hub.settings import TIMEOUT
from zoo.checkpoints.reference import SCHEME, Reference
from zoo.errors import RequestError
from zoo.publishing import cards
from zoo.publishing.training_text import recipe_text
from zoo.registry.metrics import METRICS, TARGETS
from zoo.registry.schema import Config

from .output import AsJson, columns, emit, say


def complete(incomplete: str) -> list[str]:
    """Names of models that begin so, for the shell."""
    return [name for name in registry.models() if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="Name of a model, see `rnnzoo list`.", autocompletion=complete)]
Pattern = Annotated[str, typer.Argument(help="Shell-style pattern, such as 'star-*'.", autocompletion=complete)]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only models of this task.")]
CellOption = Annotated[str | None, typer.Option("--cell", help="Only models with this cell.")]
NameOrPattern = Annotated[
    str, typer.Argument(help="Name of a model, or a pattern such as 'star-*'.", autocompletion=complete)
]
NameOrPath = Annotated[
    str,
    typer.Argument(
        help="Name of a model, a checkpoint's folder, hf://org/name or hf://org/name@revision.", autocompletion=complete
    ),
]

Timeout = Annotated[
    float | None, typer.Option(min=0.1, help=f"Seconds to go on trying while the Hub fails (default: {TIMEOUT:g}).")
]


def is_pattern(name: str) -> bool:
    """Whether it may mean several models."""
    return bool(set(name) & set("*?["))


def list_(
    pattern: Pattern = "*",
    task: TaskOption = None,
    cell: CellOption = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained/--no-pretrained",
            help="Only models with, or without, weights here; a figure may be kept without.",
        ),
    ] = None,
    remote: Annotated[bool, typer.Option("--remote", help="Ask the Hub what it has instead.")] = False,
    namespace: Annotated[str, typer.Option(help="With --remote: of whom.")] = "rnnzoo",
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """List the models that match."""
    if remote:
        if task or cell or pretrained is not None:
            raise RequestError("--remote lists what the Hub says, which knows no --task, --cell or --pretrained.")
        _list_remote(pattern, browse.catalogue(namespace, timeout), namespace, as_json)
        return
    rows: list[dict[str, Any]] = []
    table = []
    for name in registry.list_models(pattern, task=task, cell=cell, pretrained=pretrained):
        entry, count = registry.find(name), cards.counts(name)
        measured = results.for_model(name).measured()
        value = measured.value if measured else None
        reported = [figure.percent for figure in entry.model.reported]
        rows.append({
            "name": name, "cell": entry.model.cell, "task": entry.model.task, "parameters": count.parameters,
            "measured": value, "reported_percent": reported, "weights": entry.weights is not None,
        })  # fmt: skip
        table.append(
            (
                name,
                entry.model.task,
                f"{count.parameters:,}",
                TARGETS[entry.task.target].text(value) if value is not None else None,
                entry.model.reported_text,
                "yes" if entry.weights else None,
            )
        )
    if not rows:
        say("No model matches. `rnnzoo list` shows them all; a part of a name is found by '*part*'.")
    emit(rows, as_json, columns(("NAME", "TASK", "PARAMETERS", "MEASURED", "REPORTED", "WEIGHTS"), table))


def _list_remote(pattern: str, remote: list[browse.Remote], namespace: str, as_json: bool) -> None:
    found = [r for r in remote if fnmatch.fnmatchcase(r.repo.partition("/")[2], pattern)]
    pinned = {pin.repo: pin.revision for pin in registry.load_lock().weights.values()}
    if not found:
        say(f"{namespace} has no model of this library on the Hub that matches.")
    rows = [{**asdict(r), "pinned": pinned.get(r.repo) == r.revision is not None} for r in found]
    table = [
        (
            f"{SCHEME}{r.repo}", r.revision and r.revision[:8], r.modified and r.modified[:10],
            "private" if r.private else None, "pinned" if row["pinned"] else None,
        )
        for r, row in zip(found, rows, strict=True)
    ]  # fmt: skip
    emit(rows, as_json, columns(("ADDRESS", "COMMIT", "MODIFIED", "", ""), table))


def show(name: NameOrPath, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Show one model: architecture, task, recipe, reported and measured figures; of a folder or an address, what it says."""
    reference = Reference.parse(name)
    if reference.repo is not None:
        _show_remote(name, browse.describe(reference.repo, reference.revision, timeout), as_json)
        return
    if reference.folder is not None:
        _show_folder(name, as_json)
        return
    entry = registry.find(name)
    found = results.for_model(name)
    counts = cards.counts(name)
    data: dict[str, Any] = {
        "name": name,
        **entry.config.model_dump(mode="json", include={"architecture", "interface"}),
        "task": {"name": entry.model.task, **entry.task.model_dump(mode="json")},
        "recipe": {"name": entry.model.recipe, **entry.recipe.model_dump(mode="json")},
        "parameters": counts.parameters,
        "multiply_adds": counts.multiply_adds,
        "reported": [figure.model_dump(mode="json") for figure in entry.model.reported],
        "measured": [evaluation.model_dump(mode="json") for evaluation in found.evaluations],
        "weights": entry.weights.model_dump(mode="json") if entry.weights else None,
    }
    emit(data, as_json, cards.summary(entry, found, counts))


def _show_remote(name: str, found: browse.Description, as_json: bool) -> None:
    """What a repository on the Hub says of itself, its config.json and results.json read as strictly as ours."""
    said = found.remote
    rows: list[tuple[str, object]] = [
        ("commit", said.revision),
        ("modified", said.modified),
        ("private", {True: "yes", False: "no", None: None}[said.private]),
        *_facts(found.config, found.evaluations),
        ("tags", ", ".join(said.tags) or None),
    ]
    rows += [("file", file if size is None else f"{file}, {size:,} bytes") for file, size in found.files.items()]
    data = {"name": name, **asdict(said), **_data(found.config, found.evaluations), "files": found.files}
    emit(data, as_json, columns((name, ""), rows))
    say("No pin of the registry vouches for any of this.")


def _show_folder(name: str, as_json: bool) -> None:
    """What a folder has, which `rnnzoo train` or `save_pretrained` made: its config.json and results.json."""
    config = configs.read(Path(name) / configs.FILE)
    found, _ = results.read_current(Path(name))
    rows = _facts(config, found.evaluations)
    if training := found.training:
        rows.append(("recipe", f"{training.recipe_name}: {recipe_text(training.recipe)}"))
        rows.append(("done", f"{training.epochs_done} of {training.recipe.epochs} epochs"))
    made = found.training.model_dump(mode="json") if found.training else None
    data = {"name": name, **_data(config, found.evaluations), "training": made}
    emit(data, as_json, columns((name, ""), rows))


def _facts(config: Config, measured: Sequence[results.Evaluation]) -> list[tuple[str, object]]:
    spec = config.architecture
    return [
        ("model", config.name),
        ("architecture", f"{spec.cell}, {spec.layers} x {spec.units}"),
        ("task", config.task),
        *(("measured", f"{METRICS[e.metric].text(e.value)} on {e.n:,} {e.split} examples") for e in measured),
    ]


def _data(config: Config, measured: Sequence[results.Evaluation]) -> dict[str, Any]:
    return {"config": config.model_dump(mode="json"), "measured": [e.model_dump(mode="json") for e in measured]}
