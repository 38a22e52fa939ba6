"""`rnnzoo card` and `rnnzoo release`: what is published of a model."""

from pathlib import Path
from typing import Annotated

import typer

from zoo import registry

from .arguments import AsJson, Name
from .output import emit, say


def card(
    name: Name,
    write: Annotated[bool, typer.Option("--write", help="Write it to cards/NAME/README.md, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print a model's card: Markdown generated from the registry and the recorded results."""
    from zoo.publishing import cards
    from zoo.utils import files, paths

    text = cards.render(registry.find(name))
    if write:
        path = paths.writable("cards", name, "README.md")
        files.atomic_write(path, text.encode())
        say(f"Wrote {path}")
    emit({"name": name, "card": text}, as_json, text.rstrip("\n"))


def release(
    target: Annotated[
        str,
        typer.Argument(metavar="FOLDER|DATASET", help="Folder of a `rnnzoo train` run, or a dataset of registry.yaml."),
    ],
    results_only: Annotated[
        bool,
        typer.Option("--results", help="Only keep what `rnnzoo eval FOLDER --record` measured, not the weights."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Publish a trained checkpoint in cards/NAME and pin it in cards/lock.json; or pin the files of a dataset.

    For maintainers, and for a zoo of your own. A folder that has the name of a dataset is written ./NAME.
    """
    from zoo.publishing import release
    from zoo.utils import paths

    if target in registry.load_registry().datasets:
        _release_dataset(target, results_only, as_json)
        return
    folder = Path(target)
    name = (release.release_results if results_only else release.release)(folder)
    home = str(paths.path("cards", name))
    emit({"name": name, "folder": home}, as_json, home)
    card_command = "make generated" if paths.is_checkout() else f"rnnzoo card {name} --write"
    if results_only:
        say(f"Kept without weights. Next: {card_command}")
    else:
        say(f"Pinned in cards/lock.json. Next: rnnzoo eval {name} --record, then {card_command}")


def _release_dataset(name: str, results_only: bool, as_json: bool) -> None:
    """Pin the digests of a dataset's files as they are on this machine."""
    from zoo.errors import RequestError
    from zoo.publishing import release

    if results_only:
        raise RequestError(f"{name} is a dataset, and --results is for a training folder. Leave it out.")
    digests = release.lock_dataset(name)
    emit(
        {"dataset": name, "sha256": digests},
        as_json,
        "\n".join(f"{sha256}  {file}" for file, sha256 in digests.items()),
    )
    say(f"Pinned {len(digests)} files of {name} in cards/lock.json; review and commit it.")
