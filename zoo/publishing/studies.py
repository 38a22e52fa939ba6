"""The documents' figures, computed here: `python -m zoo.publishing.studies [NAME ...] [--runs DIR]` writes docs/diagnostics/.

The numbers are committed, the pages and pictures are generated from them (zoo.publishing.analysis_pages), so that neither reading
nor checking them takes a computation. DIR has runs of `rnnzoo train`, for networks whose weights are not published.
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
"""Heading, row of ANALYSES and result of each part of a study."""
RUNS = 10_000
DIGITS = 16


def write(name: str, parts: Parts) -> Path:
    """Compute a study and write its numbers, with what computed them."""
    shown = [{"title": title, "what": what, "result": result.to_json()} for title, what, result in parts]
    made = {"date": provenance.today(), "versions": provenance.versions()}
    path = paths.path(*FOLDER, f"{name}.json")
    files.atomic_write(path, (_compact({"study": name, **made, "shown": shown}) + "\n").encode())
    return path


def _compact(value: Any, depth: int = 0) -> str:
    """JSON with one line for each row of numbers."""
    if isinstance(value, dict) and depth < 6:
        rows = (f"{json.dumps(k)}: {_compact(v, depth + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(rows) + "\n}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return "[\n" + ",\n".join(_compact(v, depth + 1) for v in value) + "\n]"
    return json.dumps(value)


def _of(name: str, what: str, weights: str | None = None, examples: int = 128, **options: Any) -> Result:
    """One analysis of the registry's `name`, with the weights of the folder `weights` if it is given."""
    row = ANALYSES[what]
    config = subject.config_of(name)
    if row.needs == "architecture":
        return row.function(config, **options)
    if row.needs == "training":
        return row.function(*subject.training_arguments(name, config), **options)
    sample = subject.sample(weights or name, config, examples)
    result = row.function(*sample.arguments(row.needs), **options)
    return replace(
        result, setting={**result.setting, "of": name, "with": sample.description, "weights": _digest(weights, name)}
    )


def _digest(folder: str | None, name: str) -> str:
    """First digits of the SHA-256 of the weights analysed, which tell numbers of others than those published now."""
    if folder is not None:
        return files.sha256(Path(folder) / tensors.FILE)[:DIGITS]
    published = registry.find(name).weights
    return published.files[tensors.FILE].sha256[:DIGITS] if published else "none"


def star_lattice(runs: Path | None) -> Parts:
    """Gating revisited, Fig. 2, 6 and 7."""
    for cell in ("rnn", "lstm", "lstm-f", "gru", "star"):
        yield cell, "lattice", _of(f"{cell}-12x32", "lattice", runs=RUNS)


def star_lattice_weights(runs: Path | None) -> Parts:
    """The same without biases among the parameters: what the choice of parameters does to the figure."""
    for cell in ("rnn", "lstm", "star"):
        yield cell, "lattice", _of(f"{cell}-12x32", "lattice", runs=RUNS // 10, biases=False)


def star_jacobian(runs: Path | None) -> Parts:
    """Gating revisited, sections 3.1 and 4."""
    for cell in ("rnn", "lstm", "lstm-f", "gru", "star"):
        yield cell, "jacobian", _of(f"{cell}-1x32", "jacobian")


def star_training(runs: Path | None) -> Parts:
    """Gating revisited, Fig. 3: 12 layers on pixel-by-pixel MNIST, in smaller batches and fewer updates, but otherwise by
    the document's recipe and from its initialisation, which the registry's models depart from."""
    recipe = registry.load_registry().recipes["star-mnist"].model_copy(update={"batch_size": 20})
    for cell in ("rnn", "lstm", "lstm-f", "rhn", "star"):
        name = f"{cell}-12x128-smnist"
        config = subject.config_of(name)
        init = config.architecture.init.model_copy(update={"gate_bias": "chrono"})
        network, split, _, target = subject.training_arguments(name, _with(config, standardize=False, init=init))
        yield cell, "evolution", ANALYSES["evolution"].function(network, split, recipe, target, updates=40, every=1)


def rin_adding(runs: Path | None) -> Parts:
    """Overcoming the vanishing gradient problem in plain recurrent networks, Fig. 1."""
    for cell in ("lstm", "irnn", "rin"):
        yield cell, "aee", _of(f"{cell}-1x100-adding-200", "aee", _weights(runs, f"{cell}-1x100-adding-200"))


def rin_mnist(runs: Path | None) -> Parts:
    """The same, Fig. 4, on MNIST by rows instead of by pixels."""
    for name in ("lstm-1x128-mnist-rows", "rnn-1x128-mnist-rows", "rin-1x100-mnist-rows"):
        yield name, "aee", _of(name, "aee")


def chen_steps(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 5.3, trained and not, on text, and on MNIST by rows."""
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x200-toxic-parts"
        yield f"{cell}, trained", "noh", _of(name, "noh", _weights(runs, name), 16, points=25)
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
        yield f"{cell}, MNIST rows", "noh", _of(name, "noh", examples=64)
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x128-mnist-rows"
        yield f"{cell}, MNIST rows, v of signs", "noh", _of(name, "noh", examples=64, probe="signs")


def chen_epochs(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 5.1 and 5.2, of runs with --diagnose noh."""
    for cell in ("rnn", "lstm", "gru"):
        yield cell, "noh", history((runs or Path("runs")) / f"{cell}-1x50-toxic-parts-diluted")


def chen_gates(runs: Path | None) -> Parts:
    """Chen 2022, section 5.2: the same with respect to the weights of every gate."""
    for cell in ("rnn", "lstm", "gru"):
        yield cell, "gates", _of(f"{cell}-1x128-mnist-rows", "gates", examples=32)


def chen_dependency(runs: Path | None) -> Parts:
    """Chen 2022, sections 4.2 and 4.4."""
    for cell in ("rnn", "lstm", "gru"):
        name = f"{cell}-1x200-toxic-parts"
        yield cell, "dependency", _of(name, "dependency", _weights(runs, name), 200)


def chen_feedforward(runs: Path | None) -> Parts:
    """Chen 2022, Fig. 3.3-3.10, on the features as they are and standardised."""
    for tag in ("sigmoid", "prelu-tuned"):
        for text, standardize in (("", False), (", standardised", True)):
            name = f"mlp-3x8-pima.{tag}"
            given = subject.training_arguments(name, _with(subject.config_of(name), standardize=standardize))
            yield f"{tag}{text}", "feedforward", ANALYSES["feedforward"].function(*given)


def pascanu_eigenvalues(runs: Path | None) -> Parts:
    """Pascanu et al. 2013, as the overview retells it (section 3.1), and the lecture on h_t = W^T h_{t-1}: one Gaussian
    matrix times what gives it a spectral radius or a norm, and what training made of another."""
    name = "rnn-1x128-mnist-rows"
    units = registry.find(name).config.architecture.units
    random = torch.randn(units, units, generator=torch.Generator().manual_seed(0))
    radius, norm = (float(v.abs().max()) for v in (torch.linalg.eigvals(random), torch.linalg.svdvals(random)))
    for title, scale in (("radius 0.9", 0.9 / radius), ("radius 1.1", 1.1 / radius), ("norm 0.9", 0.9 / norm)):
        network = build(subject.config_of(name), device="cpu")
        network.get_parameter("layers.0.directions.0.cell.recurrent.weight").data.copy_(scale * random)
        yield title, "eigenvalues", ANALYSES["eigenvalues"].function(network)
    yield "trained", "eigenvalues", _of(name, "eigenvalues")


def _with(config: Config, **changes: Any) -> Config:
    """A network's config with another architecture."""
    return config.model_copy(update={"architecture": config.architecture.model_copy(update=changes)})


def _weights(runs: Path | None, name: str) -> str | None:
    """The folder of a run, unless the weights are published. Raises RequestError if there is neither."""
    if registry.find(name).weights is not None:
        return None
    if runs is None or not (runs / name).is_dir():
        raise RequestError(f"{name} has no published weights, and there is no run of it. Say where it is by --runs.")
    return str(runs / name)


STUDIES: dict[str, Callable[[Path | None], Parts]] = {
    study.__name__.replace("_", "-"): study
    for study in (star_jacobian, star_lattice, star_lattice_weights, star_training, rin_adding, rin_mnist, chen_steps,
                  chen_epochs, chen_gates, chen_dependency, chen_feedforward, pascanu_eigenvalues)
}  # fmt: skip


def main() -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="*", choices=[[], *STUDIES, "cards"], help="which (default: all but cards)")
    parser.add_argument("--runs", type=Path, help="folder of runs, for networks without published weights")
    given = parser.parse_args()
    failed = 0
    for name in given.name or STUDIES:
        sys.stderr.write(f"{name}\n")
        if name == "cards":
            for model in registry.list_models(pretrained=True):
                lattices.write(registry.find(model), paths.path("cards", model))
            continue
        try:
            write(name, STUDIES[name](given.runs))
        except ZooError as error:  # the others are none the worse for it
            sys.stderr.write(f"{error}\n")
            failed = failed or error.exit_code
    return failed


if __name__ == "__main__":
    sys.exit(main())
