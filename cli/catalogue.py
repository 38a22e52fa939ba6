"""`rnnzoo list` and `rnnzoo show`: the models there are. Both start fast, so heavier imports stand inside functions."""

import fnmatch
from typing import Annotated, Any

import typer

from zoo import registry
from zoo.checkpoints import figures
from zoo.errors import RequestError
from zoo.registry import index
from zoo.registry.metrics import TARGETS

from .arguments import AsJson, CellOption, NameOrAddress, Pattern, TaskOption, Timeout
from .output import columns, emit, say


def list_(
    pattern: Pattern = "*",
    task: TaskOption = None,
    cell: CellOption = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained/--no-pretrained",
            help="Only models with published weights, or only models without.",
        ),
    ] = None,
    remote: Annotated[bool, typer.Option("--remote", help="List the Hub's repositories instead.")] = False,
    namespace: Annotated[str, typer.Option(help="Whose repositories --remote lists.")] = "rnnzoo",
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """List the models that match a pattern."""
    if remote:
        if task or cell or pretrained is not None:
            raise RequestError(
                "--remote cannot be combined with --task, --cell or --pretrained; the Hub does not know them."
            )
        _list_remote(pattern, namespace, timeout, as_json)
        return
    rows: list[dict[str, Any]] = []
    table = []
    for name, model in _matches(pattern, task, cell, pretrained).items():
        value, parameters = figures.test_figure(name), model.parameters
        if parameters is None:
            from zoo.publishing import cards

            parameters = cards.counts(name).parameters
        rows.append({
            "name": name, "cell": model.cell, "task": model.task, "parameters": parameters,
            "measured": value, "reported_percent": list(model.reported_percent), "weights": model.pretrained,
        })  # fmt: skip
        measured_text = None if value is None else TARGETS[model.target].text(value)
        weights_text = "yes" if model.pretrained else None
        table.append((name, model.task, f"{parameters:,}", measured_text, model.reported_text, weights_text))
    if not rows:
        say("No model matches. `rnnzoo list` shows every model; '*part*' matches a part of a name.")
    emit(rows, as_json, columns(("NAME", "TASK", "PARAMETERS", "MEASURED", "REPORTED", "WEIGHTS"), table))


def _matches(pattern: str, task: str | None, cell: str | None, pretrained: bool | None) -> dict[str, index.Summary]:
    """Return the models that registry.list_models would name, with their summaries, which need not read the registry."""
    models = index.read() or registry.summaries()
    tasks, cells = ({getattr(model, field) for model in models.values()} for field in ("task", "cell"))
    if task not in (None, *tasks) or cell not in (None, *cells):
        registry.list_models(pattern, task=task, cell=cell)  # raises UnknownNameError, or there is no such model
    return {
        name: model
        for name, model in models.items()
        if fnmatch.fnmatchcase(name, pattern)
        and task in (None, model.task)
        and cell in (None, model.cell)
        and pretrained in (None, model.pretrained)
    }


def _list_remote(pattern: str, namespace: str, timeout: float | None, as_json: bool) -> None:
    """List a namespace's repositories on the Hub."""
    from dataclasses import asdict

    from zoo.checkpoints.hub import browse
    from zoo.checkpoints.reference import SCHEME

    everything = browse.catalogue(namespace, timeout)
    repositories = [r for r in everything if fnmatch.fnmatchcase(r.repo.partition("/")[2], pattern)]
    pins = {pin.repo: pin.revision for pin in registry.load_lock().weights.values()}
    if not repositories:
        say(f"{namespace} has no matching model of rnnzoo on the Hub.")
    rows = [{**asdict(r), "pinned": pins.get(r.repo) == r.revision is not None} for r in repositories]
    table = [
        (
            f"{SCHEME}{r.repo}", r.revision and r.revision[:8], r.modified and r.modified[:10],
            "private" if r.private else None, "pinned" if row["pinned"] else None,
        )
        for r, row in zip(repositories, rows, strict=True)
    ]  # fmt: skip
    emit(rows, as_json, columns(("ADDRESS", "COMMIT", "MODIFIED", "", ""), table))


def show(name: NameOrAddress, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Show one model: architecture, task, recipe, and reported and measured figures.

    For a folder or an address on the Hub, show what its config.json and results.json say.
    """
    from zoo.checkpoints.reference import Reference

    from .describing import describe

    reference = Reference.parse(name)
    data, text = describe(reference, timeout)
    emit(data, as_json, text)
    if reference.repo is not None:
        say("No pin of the registry vouches for any of this.")
