"""A trained checkpoint becomes a published one: its files go to cards/NAME, its pin to registry.yaml."""

import io
import shutil
from pathlib import Path

from ruamel.yaml import YAML

from . import assets, checkpoint, files, hub, registry, results, text
from .diagnostics import lattices
from .errors import CheckpointError, RequestError
from .specs import PinnedFile, Weights

NAMESPACE = "rnnzoo"
MARK = "\nweights:"


def adopt(folder: Path) -> str:
    """Copy a checkpoint's files into cards/NAME and pin them in registry.yaml; returns NAME.

    The weights must load, strictly, into what the registry says NAME is. An older pin is replaced; its Hub commit goes
    with it. Raises CheckpointError, UnknownNameError, and RequestError outside a checkout.
    """
    path = assets.path("registry.yaml")
    if not assets.path("pyproject.toml").is_file():
        raise RequestError(f"{assets.ROOT} is not a checkout of the repository, where checkpoints are adopted into.")
    entry = registry.find(checkpoint.read_config(folder / checkpoint.CONFIG).name)
    checkpoint.must_agree(checkpoint.read_config(folder / checkpoint.CONFIG), entry.config, folder)
    network = checkpoint.assemble(entry.config, checkpoint.files_in(folder), device="cpu")
    if entry.task.vocabulary and network.tokenizer is None:
        raise CheckpointError(f"{folder}: no {text.FILE}, without which nobody can feed this network.")
    home = assets.path("cards", entry.name)
    home.mkdir(parents=True, exist_ok=True)
    names = [name for name in checkpoint.FILES if name != text.FILE or entry.task.vocabulary]
    for name in names:
        shutil.copyfile(folder / name, home / name)
    lattices.write(entry, home)
    results.write(home, results.read(folder).of_checkpoint(hub.sha256(home / checkpoint.WEIGHTS)))
    pinned = {name: pin(home / name) for name in sorted(names)}
    weights = Weights.model_validate({"repo": f"{NAMESPACE}/{entry.name}", "files": pinned})
    everything = {**registry.registry().weights, entry.name: weights}
    files.replace(path, (path.read_text(encoding="utf-8").partition(MARK)[0] + _section(everything)).encode())
    registry.registry.cache_clear()
    registry.models.cache_clear()
    return entry.name


def keep_results(folder: Path) -> str:
    """Copy only the results of a run, recorded evaluations and all, into cards/NAME; returns NAME.

    For a model whose weights are not published: anyone can train them again by its recipe. Raises CheckpointError where
    the run has no weights or no evaluation of them, UnknownNameError, and RequestError for a model that has a pin.
    """
    entry = registry.find(checkpoint.read_config(folder / checkpoint.CONFIG).name)
    checkpoint.must_agree(checkpoint.read_config(folder / checkpoint.CONFIG), entry.config, folder)
    if entry.weights is not None:
        raise RequestError(f"{entry.name} has published weights, whose results are kept with them; see adopt.")
    found = results.read(folder).of_checkpoint(hub.sha256(folder / checkpoint.WEIGHTS))
    if found.training is None or found.measured() is None:
        raise CheckpointError(f"{folder}: no figure of these weights. First: rnnzoo eval {folder} --record")
    home = assets.path("cards", entry.name)
    home.mkdir(parents=True, exist_ok=True)
    results.write(home, found)
    return entry.name


def pin(path: Path) -> PinnedFile:
    return PinnedFile(sha256=hub.sha256(path), size=path.stat().st_size)


def _section(weights: dict[str, Weights]) -> str:
    """The weights section of registry.yaml, its last."""
    text = io.StringIO()
    yaml = YAML()
    data = {name: weights[name].model_dump(mode="json", exclude_none=True) for name in sorted(weights)}
    yaml.dump({"weights": data}, text)
    return "\n" + text.getvalue()
