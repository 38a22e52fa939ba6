"""A trained checkpoint becomes a published one: its files go to cards/NAME, its pin to registry.yaml."""

from pathlib import Path

from .. import registry
from ..checkpoints import configs, results, tokenizer
from ..checkpoints.hub.digests import pin
from ..data import digests_of
from ..errors import CheckpointError, RequestError
from ..networks import golden, loading
from ..registry import Entry, lock
from ..registry.schema import Weights
from ..utils import files, paths
from . import lattices

NAMESPACE = "rnnzoo"


def adopt(folder: Path) -> str:
    """Copy a checkpoint's files into cards/NAME, with golden outputs, and pin them in registry.yaml; returns NAME.

    The weights must load, strictly, into what the registry says NAME is. An older pin is replaced; its Hub commit becomes
    the one that a push replaces. Raises CheckpointError, where there are no results that say how they were trained too,
    UnknownNameError, and RequestError for an installed package.
    """
    entry = _entry(folder)
    home = paths.path("cards", entry.name)
    with files.exclusive_lock(folder, wait=False):  # no training replaces them meanwhile
        network = loading.assemble(entry.config, loading.files_in(folder), device="cpu")
        if entry.task.vocabulary and network.tokenizer is None:
            raise CheckpointError(f"{folder}: no {tokenizer.FILE}, without which nobody can feed this network.")
        found = _trained(folder)
        names = [name for name in loading.FILES if name != tokenizer.FILE or entry.task.vocabulary]
        lattices.write(entry, home)  # which takes long, before anything that the old pin would contradict
        for name in names:
            files.atomic_write(home / name, (folder / name).read_bytes())
    golden.write(network, home / golden.FILE)
    results.write(home, found)
    pinned = {name: pin(home / name) for name in sorted([*names, golden.FILE])}
    older = entry.weights
    new = older.followed_by(pinned) if older else Weights(repo=f"{NAMESPACE}/{entry.name}", files=pinned)
    lock.pin(entry.name, new)
    return entry.name


def lock_dataset(name: str) -> dict[str, str]:
    """Lock the digests of a dataset's files as they are on this machine; returns them.

    Raises UnknownNameError, DataError where files are missing, and RequestError for an installed package.
    """
    paths.writable()
    digests = digests_of(name)
    lock.update(lambda old: old.model_copy(update={"datasets": {**old.datasets, name: digests}}))
    registry.clear_caches()
    return digests


def keep_results(folder: Path) -> str:
    """Copy only the results of a run, recorded evaluations and all, into cards/NAME; returns NAME.

    For a model whose weights are not published: anyone can train them again by its recipe. Raises CheckpointError where
    the run has no weights or no evaluation of them, UnknownNameError, and RequestError for a model that has a pin and for
    an installed package.
    """
    entry = _entry(folder)
    if entry.weights is not None:
        raise RequestError(f"{entry.name} has published weights, whose results are kept with them; see adopt.")
    found = _trained(folder)
    if found.measured() is None:
        raise CheckpointError(f"{folder}: no figure of these weights. First: rnnzoo eval {folder} --record")
    home = paths.path("cards", entry.name)
    home.mkdir(parents=True, exist_ok=True)
    results.write(home, found)
    return entry.name


def _trained(folder: Path) -> results.Results:
    """The results in a folder, of the weights there and with how they were trained."""
    found, own = results.read_current(folder)
    if own is None:
        raise CheckpointError(f"{folder}: no {loading.WEIGHTS}.")
    if found.training is None:
        raise CheckpointError(f"{folder}: no {results.FILE} that says how these weights were trained.")
    if not found.training.produced(own):
        raise CheckpointError(
            f"{folder}: {results.FILE} is of other weights. If a run was killed there, rnnzoo train goes on with it."
        )
    return found


def _entry(folder: Path) -> Entry:
    """What the registry says of the model in a folder, whose config must agree with it; not in an installed package."""
    paths.writable()
    config = configs.read(folder / configs.FILE)
    entry = registry.find(config.name)
    configs.must_agree(config, entry.config, folder)
    return entry
