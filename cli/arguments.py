"""Arguments and options that several verbs share, and the completion of models' names."""

from typing import Annotated

import typer

from zoo import registry
from zoo.registry import index


def complete_name(incomplete: str) -> list[str]:
    """Return the names of models that begin with `incomplete`, for the shell."""
    return [name for name in index.read() or registry.models() if name.startswith(incomplete)]


def is_pattern(name: str) -> bool:
    """Return True if `name` can match several models."""
    return bool(set(name) & set("*?["))


Name = Annotated[str, typer.Argument(help="A model's name; see `rnnzoo list`.", autocompletion=complete_name)]
Pattern = Annotated[str, typer.Argument(help="Pattern of names, such as 'star-*'.", autocompletion=complete_name)]
NameOrPattern = Annotated[
    str, typer.Argument(help="A model's name, or a pattern such as 'star-*'.", autocompletion=complete_name)
]
Names = Annotated[
    list[str], typer.Argument(help="Models' names, or patterns such as 'star-*'.", autocompletion=complete_name)
]
NameOrAddress = Annotated[
    str,
    typer.Argument(
        help="A model's name, a checkpoint folder, hf://org/name or hf://org/name@revision.",
        autocompletion=complete_name,
    ),
]
NamesOrAddresses = Annotated[
    list[str],
    typer.Argument(
        help="Models' names, patterns such as 'star-*', hf://org/name or hf://org/name@revision.",
        autocompletion=complete_name,
    ),
]
TaskOption = Annotated[str | None, typer.Option("--task", help="Only models of this task.")]
CellOption = Annotated[str | None, typer.Option("--cell", help="Only models with this cell.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 or mps (default: the best available).")]
Timeout = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="SECONDS", help="Seconds to keep trying while the Hub fails (default: 60)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
