"""Releases a trained checkpoint: its files and card go to cards/NAME, its pin and counts to cards/lock.json."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import registry
from ..checkpoints import configs, results, sources, tensors
from ..checkpoints.hub.digests import pinned
from ..checkpoints.references import Reference
from ..data import facts_of
from ..diagnostics import drawing
from ..errors import CheckpointError, RequestError
from ..exports import writing
from ..networks import golden, loading, sizes
from ..registry import Entry, lock
from ..registry.metrics import METRICS
from ..registry.schema import PACKAGE_NAMESPACE, Pin
from ..utils import files, paths
from . import cards, lattices
from .starters import PICTURE


def release(folder: Path, half: bool = False) -> str:
    """Copy the checkpoint in `folder` into cards/NAME, complete and pin it, and return its model's NAME.

    The function adds a card and golden outputs (the network's outputs for stored inputs, by which `verify` checks it on other
    machines) to cards/NAME, and writes the digests of the files (the pin) and the counts of parameters and multiply-adds to
    cards/lock.json. Afterwards `verify` and `push` accept the model. If the model was pinned already, the new pin replaces
    the old one, and the next push adds its commit on top of the pinned one. Without matplotlib the card has no picture. If
    `folder` is one of several folders seed-N, as `rnnzoo train --seeds` makes them, the card reports the figures of all
    measured ones.

    half: round the weights to float16, which halves their file. Loaded, they are float32 again. Figures of the weights as
    they were are left out: measure the rounded ones by `rnnzoo eval NAME --record`.

    Raises CheckpointError if the weights do not load strictly into the registry's architecture of NAME or do not fit into
    float16, if the outputs depend on rounding, or if `folder` has no results of these weights; UnknownNameError; and
    RequestError if rnnzoo is an installed package, not a zoo's folder.
    """
    entry = _entry(folder)
    home = paths.path("cards", entry.name)
    with files.exclusive_lock(folder, seconds=0):  # so that no training replaces the files meanwhile
        recorded = _with_other_seeds(folder, _results(folder, with_weights=True))
        source = sources.resolve(Reference.to_folder(folder))
        network = loading.assemble(source, device="cpu")
        if entry.task.vocabulary and network.tokenizer is None:
            raise CheckpointError(
                f"{folder} has no {configs.VOCABULARY}, which the network needs to read text. Give a folder of rnnzoo train, "
                "which writes this file."
            )
        off = golden.rounding(network)
        if not off <= golden.TOLERANCE:
            raise CheckpointError(
                f"On random input, rounding to float32 changes the outputs of {folder} by {off:.1e} of the largest, more than "
                f"{golden.TOLERANCE:g}, so no other machine could verify these weights. To release their figures alone: "
                f"rnnzoo release {folder} --results"
            )
        names = [tensors.FILE, configs.FILE, *([configs.VOCABULARY] if entry.task.vocabulary else [])]
        contents = {name: (folder / name).read_bytes() for name in names}
        if half:
            contents[tensors.FILE] = tensors.rounded(folder / tensors.FILE)
        if find_spec("matplotlib") is not None:
            lattices.write(entry, home)  # first, since it is slow and does not contradict the old pin
        files.write_together(home, contents)
    if half:
        recorded = recorded.of_rounded(files.sha256(home / tensors.FILE))
        loading.load_weights(network, home / tensors.FILE)  # as others will load them
    golden.write(network, home / golden.FILE)
    results.write(home, _with_earlier(recorded, entry.name, files.sha256(home / tensors.FILE)))
    pins = {name: pinned(home / name) for name in sorted([*names, golden.FILE])}
    namespace = registry.load_registry().namespace or PACKAGE_NAMESPACE
    first_pin = Pin(repo=f"{namespace}/{entry.name}", files=pins)
    weights = entry.weights.followed_by(pins) if entry.weights else first_pin
    lock.put(weights={entry.name: weights}, counts={entry.name: sizes.counts(entry.name)})
    for name in (entry.weights and entry.weights.exports) or ():  # of the weights before, which nothing pins any more
        (home / name).unlink(missing_ok=True)
    write_card(entry.name)
    return entry.name


def release_exports(name: str, **options: Any) -> list[writing.Exported]:
    """Export a registered model into cards/NAME, pin the exported files so that a push sends them, and return them.

    options: as in zoo.export. A file of the same name is replaced. Raises the errors of zoo.export, RequestError for an
    installed package, and CheckpointError for a model without weights.
    """
    home = paths.writable("cards", name)
    registry.find(name).required_pin("export")
    written = writing.export(name, out=home, **options)
    names = [each.path.name for each in written]
    names += [bin.name for each in written if (bin := each.path.with_suffix(".bin")).exists()]
    vocabulary = home / f"{name}.{configs.VOCABULARY}"
    vocabulary.unlink(missing_ok=True)  # the checkpoint's own is pinned already

    def with_exports(old: lock.Lock) -> lock.Lock:
        weights = old.weights[name]
        pins = {**(weights.exports or {}), **{each: pinned(home / each) for each in names}}
        return old.model_copy(update={"weights": {**old.weights, name: weights.model_copy(update={"exports": pins})}})

    lock.update(with_exports)
    return written


def write_card(name: str) -> Path:
    """Write a model's card to cards/NAME and return the card's path.

    If the model has a lattice and its picture is missing or out of date, the function draws the picture too. Raises
    RequestError for an installed package, and MissingExtraError if a picture must be drawn without matplotlib.
    """
    path = paths.writable("cards", name, configs.CARD)
    content = lattices.picture(name)
    if content is not None and drawing.is_stale(path.with_name(PICTURE), content):
        drawing.draw(content, "maps", path.with_name(PICTURE))
    files.atomic_write(path, cards.render(registry.find(name)).encode())
    return path


def replaced(folder: Path, results_only: bool = False) -> str | None:
    """Return a sentence that names the run in cards/NAME that a release of `folder` would replace, or None if there is none.

    results_only: True for a release of the results alone. Raises the errors of `release`.
    """
    entry, recorded = _entry(folder), _results(folder, with_weights=not results_only)
    if results_only and entry.weights is not None:  # they stay
        return None
    before = results.for_model(entry.name)
    sha256 = None if recorded.unmeasurable else files.sha256(folder / tensors.FILE)
    digests = {e.checkpoint_sha256 for e in before.evaluations}
    digests |= {before.training.checkpoint_sha256} if before.training and before.training.checkpoint_sha256 else set()
    digests |= {entry.weights.files[tensors.FILE].sha256} if entry.weights else set()
    same = before.training == recorded.training if before.unmeasurable else not digests or sha256 in digests
    if same:
        return None
    return f"{entry.name} has a released run already ({_run_text(before)}); {folder} holds another run ({_run_text(recorded)})."


def _run_text(recorded: results.Results) -> str:
    training, figure = recorded.training, recorded.measured()
    texts = [f"seed {training.recipe.seed}, {training.progress}"] if training else []
    if figure:
        texts.append(f"{METRICS[figure.metric].title} {METRICS[figure.metric].text(figure.value)}")
    else:
        texts.append(f"diverged in {training.divergence}" if training and recorded.unmeasurable else "not measured")
    return ", ".join(texts)


def release_results(folder: Path) -> str:
    """Copy only the results of the run in `folder`, without weights, into cards/NAME, and return its model's NAME.

    This records the figure of a model whose weights are not published, and the figures of other seeds as `release` does.
    Published weights of another seed stay, and the new figures are recorded next to theirs. A run that diverged in its first
    epoch has neither weights nor a figure: that it diverged, and when, is recorded. Raises CheckpointError if any other
    run has no weights or no evaluation of them, or if the run diverged and other seeds' runs did not; UnknownNameError if its
    model is not registered; and RequestError for an installed package or if there is nothing to add to the published weights.
    """
    entry = _entry(folder)
    recorded = _results(folder) if entry.weights is None else results.for_model(entry.name)
    if recorded.training is not None:
        recorded = _with_other_seeds(folder, recorded)
    if recorded.unmeasurable and recorded.other_seeds:
        raise CheckpointError(
            f"{folder} diverged, but runs of other seeds next to it were measured. Release the folder of one of them: this run is "
            "then recorded as one that diverged."
        )
    if entry.weights is not None and not (recorded.other_seeds or recorded.diverged_seeds):
        raise RequestError(
            f"{entry.name} has published weights, and no folder seed-N in {folder.resolve().parent} has a run with the same recipe "
            f"and another seed that was measured or diverged. To release these weights and results instead: rnnzoo release {folder}"
        )
    if recorded.measured() is None and not recorded.unmeasurable:
        raise CheckpointError(f"{folder}: the weights were not measured. Run first: rnnzoo eval {folder} --record")
    home = paths.path("cards", entry.name)
    home.mkdir(parents=True, exist_ok=True)
    if recorded.training is not None:
        recorded = _with_earlier(recorded, entry.name, recorded.training.checkpoint_sha256)
    results.write(home, recorded)
    write_card(entry.name)
    return entry.name


def lock_dataset(name: str) -> dict[str, str]:
    """Write what a dataset has on this machine to cards/lock.json, and return the digests of its files, {file name: sha256}.

    The sizes of its tasks' splits are written, too.

    Raises UnknownNameError if there is no such dataset, DataError if a file is missing, and RequestError for an installed
    package.
    """
    paths.writable()
    digests, sizes = facts_of(name)
    lock.put(datasets={name: digests}, splits=sizes)
    registry.clear_caches()
    return digests


def _results(folder: Path, with_weights: bool = False) -> results.Results:
    """Return the results in `folder`.

    Raises CheckpointError unless they describe the training of the weights in `folder` or, if not `with_weights`, a run that
    diverged before it had weights.
    """
    recorded, weights_sha256 = results.read_current(folder)
    if recorded.unmeasurable and with_weights:
        raise CheckpointError(
            f"{folder} has no weights: the run diverged. To record that: rnnzoo release {folder} --results"
        )
    if recorded.unmeasurable:
        return recorded
    if weights_sha256 is None:
        raise CheckpointError(f"{folder} has no {tensors.FILE}. Give the folder of a finished training run.")
    if recorded.training is None:
        raise CheckpointError(
            f"{folder}: {results.FILE} is missing or does not describe how the weights were trained. Give a folder of "
            "rnnzoo train."
        )
    if not recorded.training.produced(weights_sha256):
        raise CheckpointError(
            f"{folder}: {results.FILE} does not describe the weights in {tensors.FILE}. If a training run was killed "
            "in this folder, continue the run with rnnzoo train."
        )
    return recorded


def _with_earlier(recorded: results.Results, name: str, sha256: str | None) -> results.Results:
    """Return `recorded` with the evaluations that only cards/NAME has, if they are of the same weights, with this digest."""
    merged = results.Results() if sha256 is None else results.for_model(name).of_weights(sha256)
    for evaluation in (*recorded.evaluations, *recorded.runtimes):
        merged = merged.record(evaluation)
    return recorded.model_copy(update={"evaluations": merged.evaluations, "runtimes": merged.runtimes})


def _with_other_seeds(folder: Path, recorded: results.Results) -> results.Results:
    """Return `recorded` with the other seeds' runs next to `folder`: their figures, and which of them collapsed or diverged."""
    assert recorded.training is not None
    figures: list[results.Evaluation] = []
    collapsed: list[int] = []
    diverged: list[int] = []
    for other in sorted(folder.resolve().parent.glob("seed-*")) if folder.resolve().name.startswith("seed-") else ():
        run, _ = results.read_current(other)
        training, figure = run.training, run.measured()
        if not training or training.settings != recorded.training.settings:
            continue
        seed = training.recipe.seed
        if seed == recorded.training.recipe.seed:
            continue
        if training.diverged:
            diverged.append(seed)
        elif figure and training.finished:
            figures.append(figure)
            collapsed += [seed] if results.collapsed(training.history, training.recipe) else []
    return recorded.model_copy(
        update={"other_seeds": tuple(figures), "collapsed_seeds": tuple(collapsed), "diverged_seeds": tuple(diverged)}
    )


def _entry(folder: Path) -> Entry:
    """Return the registry's entry of the model in `folder`.

    Raises CheckpointError if the folder's config.json, or the size of a network that diverged before it had one, disagrees
    with the entry, and RequestError in an installed package.
    """
    paths.writable()
    if not folder.is_dir():
        raise RequestError(f"There is no folder {folder}. Give the folder of a training run.")
    recorded = results.read(folder)
    if recorded.training is not None and recorded.unmeasurable:
        entry = registry.find(recorded.training.model)  # config.json is written with the first weights
        if (now := sizes.counts(entry.name).parameters) != recorded.training.parameters:
            raise CheckpointError(
                f"{folder}: the run's network has {recorded.training.parameters:,} parameters, but {entry.name} has {now:,} now. "
                f"Train it again: rnnzoo train {entry.name}"
            )
        return entry
    config = configs.read(folder / configs.FILE)
    entry = registry.find(config.name)
    configs.must_agree(config, entry.config, folder)
    return entry
