"""No command, but the arguments and options that several commands share, and the completion of model names."""

import errno
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Option

from zoo import registry
from zoo.errors import CheckpointError, RequestError
from zoo.registry import index
from zoo.utils.arguments import is_pattern


def complete_name(incomplete: str) -> list[str]:
    """Return the names of the models that begin with `incomplete`. The shell's completion calls this function."""
    return [name for name in index.read() or registry.models() if name.startswith(incomplete)]


def expand(names: Sequence[str]) -> list[str]:
    """Return the models with weights that match the patterns in `names`, and the other `names` unchanged, each once.

    Raises UnknownNameError for an unknown name and for a pattern that matches no model, CheckpointError for a pattern
    that matches only models without weights, and the errors of Reference.parse.
    """
    from zoo.checkpoints.references import Reference

    models: list[str] = []
    for name in names:
        matches = registry.list_models(name, pretrained=True) if is_pattern(name) else [Reference.parse(name).text]
        shows = "`rnnzoo list --pretrained` shows the models with weights."
        if not matches and registry.list_models(name):
            raise CheckpointError(f"No model that matches {name!r} has weights. {shows}")
        if not matches:
            raise registry.unknown_model(name, shows)
        models += matches
    return list(dict.fromkeys(models))


def content_of(file: str) -> bytes:
    """Return the content of a user's file; - is standard input.

    Raises RequestError if there is no such file, it is no regular one or the content is too long, and OSError if it cannot be
    read.
    """
    from zoo.data.inputs import MAX_BYTES
    from zoo.utils import files

    if file != "-":
        path = Path(file)
        if path.is_dir():
            raise RequestError(f"{file} is a folder. Give a file.")
        if path.exists() and not path.is_file():
            raise RequestError(f"{file} is a pipe or a device. To read one, give - and connect it to standard input.")
        try:
            return files.read_regular(path, MAX_BYTES)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RequestError(f"There is no file {file!r}. Check the path.") from error
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            raise RequestError(f"{file} is larger than {MAX_BYTES:,} bytes. Give a smaller file.") from error
    content = standard_input().read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise RequestError(f"Standard input is larger than {MAX_BYTES:,} bytes. Give a smaller file.")
    return content


def standard_input() -> io.BufferedIOBase:
    """Return standard input, to read bytes from. Raises RequestError if it is closed."""
    if sys.stdin is None:
        raise RequestError("Standard input is closed. Give a file.")
    return cast(io.BufferedIOBase, sys.stdin.buffer)


def model_argument(text: str) -> Any:
    """Return an argument with the help text `text`, which the shell completes with model names."""
    return Argument(help=text, autocompletion=complete_name)


def number(text: str, minimum: int = 1, maximum: int | None = None) -> Any:
    """Return an option with the help text `text`, which takes a number from `minimum` to `maximum`."""
    return Option(help=text, min=minimum, max=maximum, metavar="N")


MAX_THREADS = 1024
"""Most threads of a process: thousands make a machine refuse new ones."""


Name = Annotated[str, model_argument("A model's name; see `rnnzoo list`.")]
Patterns = Annotated[list[str] | None, model_argument("A pattern such as 'star-*', or several names or patterns.")]
Names = Annotated[list[str], model_argument("Models' names, or patterns such as 'star-*'.")]
Address = Annotated[
    str, model_argument("A model's name, a checkpoint folder, hf://org/name or hf://org/name@revision.")
]
TaskOption = Annotated[str | None, Option("--task", help="Only models of this task.")]
CellOption = Annotated[str | None, Option("--cell", help="Only models with this cell.")]
Device = Annotated[str | None, Option(help="cpu, cuda, cuda:1 or mps (default: the best available).")]
Plot = Annotated[Path | None, Option(help="Draw the result to this file (.svg, .png or .pdf).")]
Timeout = Annotated[
    float | None, Option(min=0.1, metavar="SECONDS", help="Total seconds to wait for the Hub (default: 60).")
]
DryRun = Annotated[bool, Option("--dry-run", help="Only print what would be done.")]
AsJson = Annotated[bool, Option("--json", help="Print data as JSON.")]
