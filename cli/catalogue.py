"""`rnnzoo list` and `rnnzoo show`: what there is. Neither imports torch."""

from typing import Annotated, Any

import typer

from zoo import cards, registry, results
from zoo.targets import TARGETS

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
NameOrPath = Annotated[str, typer.Argument(help="Name of a model, or a checkpoint's folder.", autocompletion=complete)]


def list_(
    pattern: Pattern = "*",
    task: TaskOption = None,
    cell: CellOption = None,
    trained: Annotated[
        bool | None, typer.Option("--trained/--untrained", help="Only models with, or without, weights.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the models that match."""
    rows: list[dict[str, Any]] = []
    table = []
    for name in registry.list_models(pattern, task=task, cell=cell, trained=trained):
        entry, count = registry.find(name), cards.counts(name)
        measured = results.of(name).measured() if entry.weights else None
        value = measured.value if measured else None
        reported = [figure.percent for figure in entry.model.reported]
        rows.append({
            "name": name, "cell": entry.model.cell, "task": entry.model.task, "parameters": count.parameters,
            "measured": value, "reported_percent": reported,
        })  # fmt: skip
        printed = ", ".join(f"{figure:g} %" for figure in dict.fromkeys(reported)) or None
        table.append(
            (
                name,
                entry.model.task,
                f"{count.parameters:,}",
                TARGETS[entry.task.target].text(value) if value is not None else None,
                printed,
            )
        )
    if not rows:
        say("No model matches. `rnnzoo list` shows them all.")
    emit(rows, as_json, columns(("NAME", "TASK", "PARAMETERS", "MEASURED", "REPORTED"), table))


def show(name: Name, as_json: AsJson = False) -> None:
    """Show one model: architecture, task, recipe, reported and measured figures."""
    entry = registry.find(name)
    found = results.of(name)
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
