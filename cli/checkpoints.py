"""`rnnzoo card` and `rnnzoo adopt`: checkpoints and what is written about them."""

from pathlib import Path
from typing import Annotated

import typer

from zoo import registry
from zoo.publishing import cards
from zoo.utils import files, paths

from .catalogue import Name
from .output import AsJson, emit, say


def card(
    name: Name,
    write: Annotated[bool, typer.Option("--write", help="Write it to cards/NAME/README.md.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a model's card, Markdown generated from the registry and the recorded results."""
    text = cards.of(registry.find(name))
    if write:
        path = paths.writable("cards", name, "README.md")
        files.atomic_write(path, text.encode())
        say(f"Wrote {path}")
    emit({"name": name, "card": text}, as_json, text.rstrip("\n"))


def adopt(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished or stopped `rnnzoo train`.")],
    only_results: Annotated[
        bool,
        typer.Option("--results", help="Only what was measured, as `rnnzoo eval FOLDER --record` did; no weights."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take a trained checkpoint into cards/NAME and pin it in registry.yaml (for maintainers, or in a zoo of your own)."""
    from zoo.publishing import release

    name = (release.keep_results if only_results else release.adopt)(folder)
    emit({"name": name, "folder": str(paths.path("cards", name))}, as_json, str(paths.path("cards", name)))
    if only_results:
        say(f"Kept without weights.{' Next: make generated.' if paths.is_checkout() else ''}")
    else:
        then = ", then make generated" if paths.is_checkout() else ""
        say(f"Pinned in registry.yaml. Next: rnnzoo eval {name} --record{then}.")
