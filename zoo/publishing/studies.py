"""Computes the numbers of the papers' figures and writes them to docs/diagnostics/*.json.

Run it with `python -m zoo.publishing.studies [NAME ...] [--runs DIR]`. For each model whose weights are not published,
DIR/MODEL must be a run of `rnnzoo train`. The numbers are committed; `make generated` makes pages and
pictures from them without computing them again.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from .. import registry
from ..checkpoints import tensors
from ..checkpoints.references import Reference
from ..diagnostics import ANALYSES, subject
from ..diagnostics.base import Result
from ..diagnostics.noh import history
from ..errors import RequestError, ZooError
from ..networks.builder import build
from ..registry.schema import Config
from ..utils import files, paths, provenance
from . import lattices
from .pages.diagnostics import FOLDER

Parts = Iterator[tuple[str, str, Result]]
"""The content of a study: yields (title, key of ANALYSES, result) for each analysis of a network."""
Study = Callable[[Path | None], Parts]
"""A function that computes a study. Its argument is the folder with the runs of models without published weights."""
CELLS = ("rnn", "lstm", "gru")
"""The cells that Chen 2022 compares."""
BESIDE_LRU = ("rnn", "lstm", "gru", "mingru", "rg-lru", "lru")
SMNIST = ("lstm-1x128", "gru-4x128", "mingru-4x128", "blockrg-lru-2x64", "blocklru-1x196")
RUNS = 10_000
"""Number of random networks in a lattice."""
DIGITS = 16
"""Number of hexadecimal digits of a SHA-256 digest that a study stores."""


def write(name: str, parts: Parts) -> Path:
    """Compute the results of the study `name`, and write them to a file with the date and the libraries' versions.

    parts: yields the results. Returns the path of the file, docs/diagnostics/NAME.json.
    """
    shown = [{"title": title, "analysis": analysis, "result": result.to_json()} for title, analysis, result in parts]
    origin = {"date": provenance.today(), "versions": provenance.versions()}
    path = paths.path(*FOLDER, f"{name}.json")
    files.atomic_write(path, (_compact({"study": name, **origin, "shown": shown}) + "\n").encode())
    return path


def _compact(value: Any, depth: int = 0) -> str:
    """Return `value` as JSON text, with each innermost list on a single line. depth: number of dictionaries around it."""
    if isinstance(value, dict) and depth < 6:
        rows = (f"{json.dumps(k)}: {_compact(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(rows) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(_compact(v, depth + 1) for v in value) + "\n]"
    return json.dumps(value)


def _analyse(
    name: str, analysis: str, folder: Path | None, *, examples: int = 128, untrained: bool = False, **options: Any
) -> Result:
    """Return the result of `analysis`, a key of ANALYSES, on the model `name`.

    folder: a folder with the training runs of models whose weights are not published. examples, untrained: as in
    zoo.diagnostics.subject.sample. options: for the analysis.
    """
    row, config = ANALYSES[analysis], subject.config_of(name)
    if row.needs == "architecture":
        return row.function(config, **options)
    run = None if untrained else _run_without_pin(folder, name)
    sample = subject.sample(Reference.to_folder(run) if run else name, config, examples, untrained=untrained)
    result = row.function(*sample.arguments(row.needs), **options)
    weights = {} if untrained else {"weights": _digest(run, name)}
    return replace(result, setting={**result.setting, "of": name, "with": sample.description, **weights})


def _run_without_pin(folder: Path | None, name: str) -> Path | None:
    """Return the training run of the model `name` in `folder`, or None if the model's weights are published.

    Raises RequestError if the weights are not published and `folder` has no run of the model.
    """
    if registry.find(name).weights is not None:
        return None
    if folder is None or not (folder / name).is_dir():
        raise RequestError(
            f"{name} has no published weights. Train it into DIR/{name} (rnnzoo train {name}), and give --runs DIR"
        )
    return folder / name


def _digest(run: Path | None, name: str) -> str:
    """Return the first DIGITS hexadecimal digits of the SHA-256 of a model's weights.

    A test recognises by them the numbers of weights that were replaced. run: folder of the training run; it is read only if
    the weights of the model `name` are not published.
    """
    pin = registry.find(name).weights
    sha256 = pin.files[tensors.FILE].sha256 if pin else files.sha256((run or Path()) / tensors.FILE)
    return sha256[:DIGITS]


def _each(analysis: str, cells: Sequence[str], model: str, title: str = "{}", **options: Any) -> Study:
    """Return a study that runs `analysis`, a key of ANALYSES, on several models, with the arguments `options`.

    model: a template of the models' names, such as "{}-1x128-mnist-rows". title: a template of the results' titles. In both,
    each of `cells` in turn takes the place of `{}`.
    """

    def compute(folder: Path | None) -> Parts:
        for cell in cells:
            yield title.format(cell), analysis, _analyse(model.format(cell), analysis, folder, **options)

    return compute


def _star_training(folder: Path | None) -> Parts:
    """Yield gradient norms of 12 layers in the first updates on pixel-by-pixel MNIST: Turkoglu et al. 2019, Fig. 3.

    Recipe and initialisation are the paper's, not the registry's. Batches are smaller and updates fewer than the paper's.
    """
    recipe = registry.load_registry().recipes["star-mnist"].model_copy(update={"batch_size": 20})
    for cell in ("rnn", "lstm", "lstm-f", "rhn", "star"):
        name = f"{cell}-12x128-smnist"
        config = subject.config_of(name)
        init = config.architecture.init.model_copy(update={"gate_bias": "chrono"})
        network, split, _, target = subject.training_arguments(name, _with(config, standardize=False, init=init))
        yield cell, "evolution", ANALYSES["evolution"].function(network, split, recipe, target, updates=40)


def _chen_epochs(folder: Path | None) -> Parts:
    for cell in CELLS:
        yield cell, "noh", history((folder or Path("runs")) / f"{cell}-1x50-toxic-parts-diluted")


def _chen_feedforward(folder: Path | None) -> Parts:
    for tag in ("sigmoid", "prelu-tuned"):
        for text, standardize in (("", False), (", standardised", True)):
            name = f"mlp-3x8-pima.{tag}"
            arguments = subject.training_arguments(name, _with(subject.config_of(name), standardize=standardize))
            yield f"{tag}{text}", "feedforward", ANALYSES["feedforward"].function(*arguments)


def _eigenvalues(folder: Path | None) -> Parts:
    """Yield the eigenvalues of a Gaussian matrix and of a trained recurrent matrix.

    The Gaussian matrix is scaled to a spectral radius of 0.9, to one of 1.1, and to a norm of 0.9.
    """
    name = "rnn-1x128-mnist-rows"
    units = registry.find(name).config.architecture.units
    random = torch.randn(units, units, generator=torch.Generator().manual_seed(0))
    radius, norm = (float(v.abs().max()) for v in (torch.linalg.eigvals(random), torch.linalg.svdvals(random)))
    for title, scale in (("radius 0.9", 0.9 / radius), ("radius 1.1", 1.1 / radius), ("norm 0.9", 0.9 / norm)):
        network = build(subject.config_of(name), device="cpu")
        network.get_parameter("layers.0.directions.0.cell.recurrent.weight").data.copy_(scale * random)
        yield title, "eigenvalues", ANALYSES["eigenvalues"].function(network)
    yield "trained", "eigenvalues", _analyse(name, "eigenvalues", folder)


def _linear_eigenvalues(folder: Path | None) -> Parts:
    """Yield the eigenvalues of linear recurrences, untrained and trained, with powers of their matrices up to the 784th.

    Pixel-by-pixel MNIST has 784 steps.
    """
    trained = registry.find(f"{SMNIST[-1]}-smnist").config.architecture.options
    near_one = {key: trained[key] for key in ("min_radius", "max_radius")}
    for cell, options in (("mingru", {}), ("rg-lru", {}), ("lru", {}), ("lru", near_one)):
        config = _with(subject.config_of(f"{cell}-1x128"), options=options)
        title = f"{cell}, ring near 1" if options else cell
        yield title, "eigenvalues", ANALYSES["eigenvalues"].function(build(config, device="cpu"), steps=784)
    for name in SMNIST[2:]:
        yield f"{name}, trained", "eigenvalues", _analyse(f"{name}-smnist", "eigenvalues", folder, steps=784)


def _with(config: Config, **changes: Any) -> Config:
    """Return a copy of `config` with `changes` to the fields of its architecture."""
    return config.model_copy(update={"architecture": config.architecture.model_copy(update=changes)})


STUDIES: dict[str, Study] = {
    # Turkoglu et al. 2019: sections 3.1 and 4; Fig. 2, 6 and 7; the same without biases among the parameters; Fig. 3
    "star-jacobian": _each("jacobian", ("rnn", "lstm", "lstm-f", "gru", "star"), "{}-1x32"),
    "star-lattice": _each("lattice", ("rnn", "lstm", "lstm-f", "gru", "star"), "{}-12x32", runs=RUNS),
    "star-lattice-weights": _each("lattice", ("rnn", "lstm", "star"), "{}-12x32", runs=RUNS // 10, biases=False),
    "star-training": _star_training,
    # Hu et al. 2018: Fig. 1; Fig. 4, on MNIST by rows instead of by pixels
    "rin-adding": _each("aee", ("lstm", "irnn", "rin"), "{}-1x100-adding-200"),
    "rin-mnist": _each("aee", ("lstm-1x128", "rnn-1x128", "rin-1x100"), "{}-mnist-rows", "{}-mnist-rows"),
    # Chen 2022: Fig. 5.3, text, trained and untrained, and MNIST by rows
    "chen-steps": lambda folder: chain.from_iterable(study(folder) for study in (
        _each("noh", CELLS, "{}-1x200-toxic-parts", "{}, trained", examples=16, points=25),
        _each("noh", CELLS, "{}-1x200-toxic-parts", "{}, untrained", examples=16, points=25, untrained=True),
        _each("noh", CELLS, "{}-1x128-mnist-rows", "{}, MNIST rows", examples=64),
        _each("noh", CELLS, "{}-1x128-mnist-rows", "{}, MNIST rows, v of signs", examples=64, probe="signs"),
    )),
    # Fig. 5.1 and 5.2, from runs with --diagnose noh; section 5.2; sections 4.2 and 4.4; Fig. 3.3-3.10, with unscaled and
    # with standardised features
    "chen-epochs": _chen_epochs,
    "chen-gates": _each("gates", CELLS, "{}-1x128-mnist-rows", examples=32),
    "chen-dependency": _each("dependency", CELLS, "{}-1x200-toxic-parts", examples=200),
    "chen-feedforward": _chen_feedforward,
    # Pascanu et al. 2013, section 2.1
    "pascanu-eigenvalues": _eigenvalues,
    # Orvieto et al. 2023, sections 3.3 and 3.4, with gated linear cells and nonlinear ones beside the LRU
    "lru-eigenvalues": _linear_eigenvalues,
    "lru-lattice": _each("lattice", BESIDE_LRU, "{}-8x32", runs=200, steps=50),
    "lru-aee": lambda folder: chain.from_iterable(study(folder) for study in (
        _each("aee", ("rnn-1x128",), "{}-smnist", "{}, untrained", examples=32, untrained=True),
        _each("aee", SMNIST, "{}-smnist", "{}-smnist", examples=32),
    )),
}  # fmt: skip


def main() -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    help_text = "studies to compute; `cards` computes the lattices on the models' cards (default: all studies)"
    parser.add_argument("name", nargs="*", choices=[[], *STUDIES, "cards"], help=help_text)
    parser.add_argument("--runs", type=Path, help="folder with the training runs of models without published weights")
    arguments = parser.parse_args()
    failed = 0
    for name in arguments.name or STUDIES:
        sys.stderr.write(f"{name}\n")
        if name == "cards":
            for model in registry.list_models(pretrained=True):
                lattices.write(registry.find(model), paths.path("cards", model))
            continue
        try:
            write(name, STUDIES[name](arguments.runs))
        except ZooError as error:  # the other studies do not depend on it
            sys.stderr.write(f"{error}\n")
            failed = failed or error.exit_code
    return failed


if __name__ == "__main__":
    sys.exit(main())
