"""Train measured models again from scratch for one epoch, and compare with the first epoch of their histories.

`python -m benchmarks.repeated [NAME...] [--threads N] [--out FILE]` trains the released run of each model (default: NAMES) by its
recipe and seed, and stores both epochs. `python -m zoo.publishing.generated` writes the result into docs/depth.md.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from zoo import registry
from zoo.checkpoints import results
from zoo.diagnostics.benchmark import machine
from zoo.errors import RequestError
from zoo.training.trainer import train

from .common import FOLDER, command_line, write_rows

NAMES = (
    "star-2x32-pmnist-196", "star-4x128-mnist-rows", "rnn-8x128-smnist",
    "lstm-2x128-smnist", "lstm-16x32-pmnist-196",
)  # fmt: skip
"""Shallow and deep, trained and collapsed: by default, these are trained again."""
SHOWN = ("train_loss", "validation_loss", "validation_metric")


def row(name: str) -> dict[str, Any]:
    """Train one epoch of the model `name`, and return its row: the recorded numbers of the epoch, and those of this one."""
    recorded = results.for_model(name).training
    if recorded is None or not recorded.history:
        raise RequestError(f"{name} has no history. Choose a model that was trained.")
    entry, seed = registry.find(name), recorded.recipe.seed
    with tempfile.TemporaryDirectory() as folder:
        repeated = train(entry, Path(folder) / "run", device="cpu", overrides={"seed": seed}, stop_after=1)
    epochs = {"recorded": recorded.history[0], "repeated": repeated.history[0]}
    collapsed = results.collapsed(recorded.history, recorded.recipe)
    numbers = {key: {field: getattr(epoch, field) for field in SHOWN} for key, epoch in epochs.items()}
    return {"model": name, "seed": seed, "metric": recorded.metric, "collapsed": collapsed, **numbers}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=FOLDER / "repeated.json")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows = [row(name) for name in options.names]
    setting = machine(options.threads)
    given = () if options.names == NAMES else options.names
    command = " ".join(("python -m benchmarks.repeated", *given))
    write_rows(options.out, {**setting, "command": command}, 1, "rows", rows)


if __name__ == "__main__":
    main()
