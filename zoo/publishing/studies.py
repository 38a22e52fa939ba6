"""The numbers of the papers' figures: `python -m zoo.publishing.studies [NAME ...] [--runs DIR]` writes docs/diagnostics/*.json.

The numbers are committed. zoo.publishing.analysis_pages makes pages and pictures from them without computing anything. DIR has
runs of `rnnzoo train`, for networks whose weights are not published.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import registry
from ..checkpoints import tensors
from ..diagnostics import ANALYSES, subject
from ..diagnostics.base import Result
from ..diagnostics.noh import history
from ..errors import RequestError, ZooError
from ..networks.builder import build
from ..registry.schema import Config
from ..utils import files, paths, provenance
from . import lattices
from .analysis_pages import FOLDER

Parts = Iterator[tuple[str, str, Result]]
"""Title, key of ANALYSES and result of each part of a study."""
RUNS = 10_000
"""Random networks of a lattice."""
DIGITS = 16
"""Digits of a SHA-256 that a study keeps."""


def write(name: str, parts: Parts) -> Path:
    """Compute a study and write its numbers, with the date and the versions of the libraries."""
    shown = [{"title": title, "what": what, "result": result.to_json()} for title, what, result in parts]
    origin = {"date": provenance.today(), "versions": provenance.versions()}
    path = paths.path(*FOLDER, f"{name}.json")
    files.atomic_write(path, (_compact({"study": name, **origin, "shown": shown}) + "\n").encode())
    return path


def _compact(value: Any, depth: int = 0) -> str:
    """JSON with a line for each row of numbers."""
    if isinstance(value, dict) and depth < 6:
        rows = (f"{json.dumps(k)}: {_compact(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(rows) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(_compact(v, depth + 1) for v in value) + "\n]"
    return json.dumps(value)


def _analyse(name: str, what: str, folder: str | None = None, examples: int = 128, **options: Any) -> Result:
    """Run the analysis `what` on a registered model, with the weights of `folder` instead of the published ones if given."""
    row = ANALYSES[what]
    config = subject.config_of(name)
    if row.needs == "architecture":
        return row.function(config, **options)
    if row.needs == "training":
        return row.function(*subject.training_arguments(name, config), **options)
    sample = subject.sample(folder or name, config, examples)
    result = row.function(*sample.arguments(row.needs), **options)
    return replace(
        result, setting={**result.setting, "of": name, "with": sample.description, "weights": _digest(folder, name)}
    )


def _digest(folder: str | None, name: str) -> str:
    """First digits of the SHA-256 of the analysed weights, by which a test finds numbers of weights published no longer."""
    if folder is not None:
        return files.sha256(Path(folder) / tensors.FILE)[:DIGITS]
    pin = registry.find(name).weights
    return pin.files[tensors.FILE].sha256[:DIGITS] if pin else "none"


def star_lattice(runs: Path | None) -> Parts:
    """Turkoglu et al. 2019, Fig. 2, 6 and 7."""
    for cell in ("rnn", "lstm", "lstm-f", "gru", "star"):
        yield cell, "lattice", _analyse(f"{cell}-12x32", "lattice", runs=RUNS)


def star_lattice_weights(runs: Path | None) -> Parts:
    """The same without biases among the parameters."""
    for cell in ("rnn", "lstm", "star"):
        yield cell, "lattice", _analyse(f"{cell}-12x32", "lattice", runs=RUNS // 10, biases=False)


def star_jacobian(runs: Path | None) -> Parts:
    """Turkoglu et al. 2019, sections 3.1 and 4."""
    for cell in ("rnn", "lstm", "lstm-f", "gru", "star"):
        yield cell, "jacobian", _analyse(f"{cell}-1x32", "jacobian")


def star_training(runs: Path | None) -> Parts:
    """Turkoglu et al. 2019, Fig. 3: 12 layers on pixel-by-pixel MNIST.

    Recipe and initialisation are the paper's, from which the registry's models depart; batches are smaller and updates fewer.
    """
    recipe = registry.load_registry().recipes["star-mnist"].model_copy(update={"batch_size": 20})
    for cell in ("rnn", "lstm", "lstm-f", "rhn", "star"):
        name = f"{cell}-12x128-smnist"
        config = subject.config_of(name)
        init = config.architecture.init.model_copy(update={"gate_bias": "chrono"})
        network, split, _, target = subject.training_arguments(name, _with(config, standardize=False, init=init))
        yield cell, "evolution", ANALYSES["evolution"].function(network, split, recipe, target, updates=40, every=1)


def rin_adding(runs: Path | None) -> Parts:
    """Hu et al. 2018, Fig. 1."""
    for cell in ("lstm", "irnn", "rin"):
        yield cell, "aee", _analyse(f"{cell}-1x100-adding-200", "aee", _weights(runs, f"{cell}-1x100-adding-200"))


def rin_mnist(runs: Path | None) -> Parts:
    """Hu et al. 2018, Fig. 4, on MNIST by rows instead of by pixels."""
    for name in ("lstm-1x128-mnist-rows", "rnn-1x128-mnist-rows", "rin-1x100-mnist-rows"):
        yield name, "aee", _analyse(name, "aee")


def chen_steps(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 5.3: text, trained and untrained, and MNIST by rows."""
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x200-toxic-parts"
        yield f"{cell}, trained", "noh", _analyse(name, "noh", _weights(runs, name), 16, points=25)
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x200-toxic-parts"
        sample = subject.sample(name, subject.config_of(name), 16, untrained=True)
        result = ANALYSES["noh"].function(*sample.arguments("data"), points=25)
        yield (
            f"{cell}, untrained",
            "noh",
            replace(result, setting={**result.setting, "of": name, "with": sample.description}),
        )
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x128-mnist-rows"
        yield f"{cell}, MNIST rows", "noh", _analyse(name, "noh", examples=64)
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x128-mnist-rows"
        yield f"{cell}, MNIST rows, v of signs", "noh", _analyse(name, "noh", examples=64, probe="signs")


def chen_epochs(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 5.1 and 5.2, from runs with --diagnose noh."""
    for cell in ("rnn", "lstm", "gru"):
        yield cell, "noh", history((runs or Path("runs")) / f"{cell}-1x50-toxic-parts-diluted")


def chen_gates(runs: Path | None) -> Parts:
    """Chen 2022, section 5.2: the gradients with respect to the weights of every gate."""
    for cell in ("rnn", "lstm", "gru"):
        yield cell, "gates", _analyse(f"{cell}-1x128-mnist-rows", "gates", examples=32)


def chen_dependency(runs: Path | None) -> Parts:
    """Chen 2022, sections 4.2 and 4.4."""
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x200-toxic-parts"
        yield cell, "dependency", _analyse(name, "dependency", _weights(runs, name), 200)


def chen_feedforward(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 3.3-3.10, on unscaled and on standardised features."""
    for tag in ("sigmoid", "prelu-tuned"):
        for text, standardize in (("", False), (", standardised", True)):
            name = f"mlp-3x8-pima.{tag}"
            arguments = subject.training_arguments(name, _with(subject.config_of(name), standardize=standardize))
            yield f"{tag}{text}", "feedforward", ANALYSES["feedforward"].function(*arguments)


def pascanu_eigenvalues(runs: Path | None) -> Parts:
    """Pascanu et al. 2013, section 2.1: one Gaussian matrix scaled to a spectral radius or a norm, and a trained matrix."""
    name = "rnn-1x128-mnist-rows"
    units = registry.find(name).config.architecture.units
    random = torch.randn(units, units, generator=torch.Generator().manual_seed(0))
    radius, norm = (float(v.abs().max()) for v in (torch.linalg.eigvals(random), torch.linalg.svdvals(random)))
    for title, scale in (("radius 0.9", 0.9 / radius), ("radius 1.1", 1.1 / radius), ("norm 0.9", 0.9 / norm)):
        network = build(subject.config_of(name), device="cpu")
        network.get_parameter("layers.0.directions.0.cell.recurrent.weight").data.copy_(scale * random)
        yield title, "eigenvalues", ANALYSES["eigenvalues"].function(network)
    yield "trained", "eigenvalues", _analyse(name, "eigenvalues")


def _with(config: Config, **changes: Any) -> Config:
    """A config with changes to its architecture."""
    return config.model_copy(update={"architecture": config.architecture.model_copy(update=changes)})


def _weights(runs: Path | None, name: str) -> str | None:
    """The folder of a model's run; None if its weights are published. Raises RequestError if there is neither."""
    if registry.find(name).weights is not None:
        return None
    if runs is None or not (runs / name).is_dir():
        raise RequestError(f"{name} has no published weights, and there is no run of it in the folder of --runs.")
    return str(runs / name)


STUDIES: dict[str, Callable[[Path | None], Parts]] = {
    study.__name__.replace("_", "-"): study
    for study in (star_jacobian, star_lattice, star_lattice_weights, star_training, rin_adding, rin_mnist, chen_steps,
                  chen_epochs, chen_gates, chen_dependency, chen_feedforward, pascanu_eigenvalues)
}  # fmt: skip


def main() -> int:
    """Run the program and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "name",
        nargs="*",
        choices=[[], *STUDIES, "cards"],
        help="studies to compute, or cards for the lattices of the cards (default: all studies)",
    )
    parser.add_argument("--runs", type=Path, help="folder that has the runs of models without published weights")
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
