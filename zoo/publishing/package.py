"""What a push would send, checked before anybody is asked: the files of cards/NAME, and nothing else that lies there."""

import os
from dataclasses import dataclass
from pathlib import Path

from ..checkpoints import configs, results, tensors
from ..checkpoints.hub import local, settings
from ..checkpoints.hub.digests import differs
from ..errors import CheckpointError
from ..registry import Entry
from ..registry.schema import Weights
from ..utils import paths
from . import cards


@dataclass(frozen=True)
class Package:
    """The content of a checkpoint's repository."""

    entry: Entry
    pin: Weights
    files: dict[str, bytes]


def pack(entry: Entry) -> Package:
    """Read and check all that a push of a model would send.

    CheckpointError for what is unpinned, differs from its pin, from the registry or from its card, is not finite, has a
    token in it, or is a link: a card's folder must hold its own files.
    """
    pin = entry.weights
    if pin is None:
        raise CheckpointError(f"{entry.name} has no weights to push. To train it: rnnzoo train {entry.name}")
    refuse_links(paths.path("cards", entry.name))
    if configs.GOLDEN not in pin.files:
        raise CheckpointError(f"{entry.name}: no {configs.GOLDEN} is pinned. `rnnzoo adopt` its folder again.")
    found = {name: _pinned(entry.name, pin, name) for name in pin.files}
    configs.must_agree(configs.read(found[configs.FILE]), entry.config, found[configs.FILE])
    if odd := tensors.not_finite(found[tensors.FILE]):
        raise CheckpointError(f"{entry.name}: {', '.join(odd[:5])} has values that are not finite; not pushed.")
    content = {name: path.read_bytes() for name, path in found.items()}
    content |= _written(entry)
    for name, data in content.items():
        if not name.endswith(".safetensors") and settings.has_secret(data.decode(errors="replace")):
            raise CheckpointError(f"{entry.name}: there is what looks like a token in {name}; not pushed. Take it out.")
    return Package(entry, pin, content)


def refuse_links(folder: Path) -> None:
    """CheckpointError if a folder, or anything in it, is a symbolic link."""
    found = [folder, *(Path(at) / name for at, folders, names in os.walk(folder) for name in (*folders, *names))]
    for path in found:
        if path.is_symlink():
            raise CheckpointError(
                f"{path} is a symbolic link; what is pushed must be here itself. Replace it by a copy."
            )


def _pinned(model: str, pin: Weights, name: str) -> Path:
    """The copy of a pinned file to send: the folder's own, which must be the pinned one, else the cache's."""
    copies = local.copies(model, pin, name)
    if not copies:
        raise CheckpointError(f"{model}: {name} is not on this machine. Get it first: rnnzoo pull {model}")
    if problem := differs(copies[-1], pin.files[name]):
        raise CheckpointError(f"{copies[-1]} {problem}, by its pin. `rnnzoo adopt` pins a new checkpoint; not pushed.")
    return copies[-1]


def _written(entry: Entry) -> dict[str, bytes]:
    """The card, what it shows, and the results: these about the weights, the card about them."""
    from . import lattices

    drawn = () if lattices.of(entry.name) is None else (lattices.FILE, lattices.PICTURE)
    try:
        content = {
            name: paths.path("cards", entry.name, name).read_bytes() for name in (configs.CARD, results.FILE, *drawn)
        }
    except OSError as error:
        raise CheckpointError(f"{error.filename}: cannot be read ({error.strerror}); not pushed.") from error
    if problem := stale(entry):
        raise CheckpointError(f"{entry.name}: {problem}; not pushed.")
    return content


def stale(entry: Entry) -> str | None:
    """What is wrong with the results of a model, if they are of other weights than the pinned ones, or with its card, if it
    is not, byte for byte, what they and the registry make it."""
    pinned = {pin.files[tensors.FILE].sha256} if (pin := entry.weights) else set()
    if {e.checkpoint_sha256 for e in results.for_model(entry.name).evaluations} - pinned:
        return f"{results.FILE} has figures of other weights (rnnzoo eval {entry.name} --record)"
    path = paths.path("cards", entry.name, configs.CARD)
    try:
        there = path.read_bytes()
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return (
        None
        if there == cards.of(entry).encode()
        else f"{path} is not what the registry and the results say: make generated"
    )
