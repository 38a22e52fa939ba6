"""Collects what a push sends, and checks it before any request to the Hub.

A push sends the files of cards/NAME whose digests are in cards/lock.json (the pin), the card and the results.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from ..checkpoints import configs, results, sources, tensors
from ..checkpoints.hub.digests import mismatch
from ..errors import CheckpointError
from ..registry import Entry
from ..registry.schema import Pin
from ..utils import paths
from ..utils.text import has_secret
from . import cards


@dataclass(frozen=True)
class Package:
    """Everything that a push sends to a checkpoint's repository."""

    entry: Entry
    pin: Pin
    files: dict[str, bytes]
    """Content by file name."""


def pack(entry: Entry) -> Package:
    """Return everything that a push of a model sends, after checking it.

    Raises CheckpointError for a model without weights; for a file that differs from its pin, from the registry or from the
    generated card; for weights that are infinite or NaN; for a text file that contains a token; and for symbolic links.
    """
    pin = entry.required_pin("push")
    refuse_links(paths.path("cards", entry.name))
    if configs.GOLDEN not in pin.files:
        raise CheckpointError(
            f"{entry.name}: cards/lock.json does not pin {configs.GOLDEN}. Release the training run again: rnnzoo release RUN"
        )
    pinned = {name: _pinned_copy(entry.name, pin, name) for name in pin.every_file}
    configs.must_agree(configs.read(pinned[configs.FILE]), entry.config, pinned[configs.FILE])
    if names := tensors.not_finite(pinned[tensors.FILE]):
        first = ", ".join(names[:5])
        raise CheckpointError(
            f"{entry.name}: {first} has values that are infinite or NaN; nothing was pushed. Release another run: rnnzoo "
            "release RUN"
        )
    content = {name: path.read_bytes() for name, path in pinned.items()} | _card_and_results(entry)
    for name, data in content.items():
        if not name.endswith(".safetensors") and has_secret(data.decode(errors="replace")):
            raise CheckpointError(
                f"{entry.name}: {name} seems to contain a token; nothing was pushed. Remove the token from the file."
            )
    return Package(entry, pin, content)


def refuse_links(folder: Path) -> None:
    """Raise CheckpointError if `folder`, or a file or folder in it at any depth, is a symbolic link."""
    inside = [Path(at) / name for at, folders, names in os.walk(folder) for name in (*folders, *names)]
    for path in [folder, *inside]:
        if path.is_symlink():
            raise CheckpointError(
                f"{path} is a symbolic link, and links are not pushed. Replace the link with its file."
            )


def _pinned_copy(model: str, pin: Pin, name: str) -> Path:
    """Return the path of the file `name` of a model: in the card's folder or, if it is not there, in the cache.

    Raises CheckpointError if the file is in neither, or if its digest differs from that in `pin`.
    """
    copies = sources.copies(model, pin, name)
    if not copies:
        raise CheckpointError(f"{model}: {name} is not on this machine. Download it first: rnnzoo pull {model}")
    if problem := mismatch(copies[-1], pin.every_file[name]):
        raise CheckpointError(
            f"{copies[-1]} differs from the pinned file: it {problem}; nothing was pushed. To pin new files: rnnzoo release "
            "RUN"
        )
    return copies[-1]


def _card_and_results(entry: Entry) -> dict[str, bytes]:
    """Return {file name: content} of the card, its pictures and the results.

    Raises CheckpointError if one of the files cannot be read or is out of date.
    """
    from . import lattices
    from .starters import PICTURE

    pictures = () if lattices.stored(entry.name) is None else (lattices.FILE, PICTURE)
    folder = paths.path("cards", entry.name)
    try:
        content = {name: (folder / name).read_bytes() for name in (configs.CARD, results.FILE, *pictures)}
    except OSError as error:
        raise CheckpointError(f"{error.filename}: cannot be read ({error.strerror}); nothing was pushed.") from error
    if problem := stale(entry):
        raise CheckpointError(f"{entry.name}: {problem}; nothing was pushed.")
    return content


def stale(entry: Entry) -> str | None:
    """Return what is out of date in a model's results or card, as text, or None if nothing is.

    All recorded figures must be of the pinned weights, and the card must equal the rendered card byte for byte.
    """
    pinned = {pin.files[tensors.FILE].sha256} if (pin := entry.weights) else set()
    if {e.checkpoint_sha256 for e in results.for_model(entry.name).evaluations} - pinned:
        return f"{results.FILE} has figures of weights that are not pinned (run: rnnzoo eval {entry.name} --record)"
    path = paths.path("cards", entry.name, configs.CARD)
    try:
        content = path.read_bytes()
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    if content != cards.render(entry).encode():
        return f"{path} differs from the card generated from the registry and the results (run: rnnzoo card {entry.name} --write)"
    return None
