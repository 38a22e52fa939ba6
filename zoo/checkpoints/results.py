"""results.json: what a program measured about a checkpoint. Written by training and evaluation, read by cards; no torch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from ..errors import CheckpointError, first_problem
from ..registry.metrics import Metric
from ..registry.schema import Recipe, Seq, Sha256, Spec, Text
from ..utils import files, paths
from . import tensors

FILE = "results.json"


class Evaluation(Spec):
    """One metric of one checkpoint on one split, and all that is needed to measure it again."""

    model: Text
    task: Text
    dataset: Text
    split: Literal["train", "validation", "test"]
    metric: Metric
    value: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    loss: float
    """Mean of what zoo.registry.metrics says the metric's task minimises."""
    n: Annotated[int, Field(ge=1)]
    """Number of examples."""
    dataset_sha256: dict[str, Sha256]
    checkpoint_sha256: Sha256
    seed: int | None = None
    """Seed the checkpoint was trained with, if known."""
    versions: dict[str, str]
    device: Text
    date: Text
    seconds: float
    command: Text


class Epoch(Spec):
    """One epoch of training: means of loss and metric, see zoo.registry.metrics."""

    epoch: int
    lr: float
    train_loss: float
    train_metric: float
    validation_loss: float
    validation_metric: float
    gradient_norm: float
    """Mean global norm before clipping."""
    seconds: float
    """Time since the run began, pauses left out."""
    diagnostics: dict[str, Seq[float | None]] = {}
    """What `train --diagnose` recorded after the epoch, a number a layer, by the names of zoo.diagnostics."""

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, data: Any) -> Any:
        """Runs from when every metric was an accuracy said so in the names."""
        return {k.replace("_accuracy", "_metric"): v for k, v in data.items()} if isinstance(data, dict) else data


def converged(history: Sequence[Epoch], recipe: Recipe) -> bool:
    """Whether the validation loss has not fallen for as many epochs as the recipe has patience for, in its last stage."""
    last, _ = recipe.timeline[-1]
    losses = [row.validation_loss for row in history[last.start_epoch :]]
    return recipe.patience is not None and bool(losses) and len(losses) > losses.index(min(losses)) + recipe.patience


class Training(Spec):
    """How a checkpoint came about."""

    model: Text
    metric: Metric = "accuracy"
    recipe_name: Text
    recipe: Recipe
    overrides: dict[str, Any] = {}
    """What the command line changed in the registry's recipe."""
    epochs_done: int
    parameters: int
    processes: int
    threads: int | None = None
    """Of the CPU, in each process that the run began with, if known: with another number, sums are rounded otherwise."""
    device: Text
    """With `, then ` between several, where a run went on elsewhere."""
    versions: dict[str, str]
    command: Text
    checkpoint_sha256: Sha256 | None = None
    """Of the best weights so far, if known."""
    diverged: int | None = None
    """The epoch in which the loss or its gradient was no longer finite, if that is how the run ended."""
    history: Seq[Epoch] = ()

    @property
    def best(self) -> Epoch | None:
        """The epoch with the lowest validation loss, whose weights are kept."""
        return min(self.history, key=lambda row: row.validation_loss, default=None)

    def made(self, sha256: str) -> bool:
        """Whether it made these weights, as far as is known."""
        return bool(self.history) and self.checkpoint_sha256 in (None, sha256)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be done: all epochs are, or the run has converged."""
        return self.epochs_done >= self.recipe.epochs or converged(self.history, self.recipe)


class Results(Spec):
    """All of results.json."""

    training: Training | None = None
    evaluations: Seq[Evaluation] = ()

    def record(self, evaluation: Evaluation) -> "Results":
        """With `evaluation` in place of an earlier one of the same split and metric."""
        key = (evaluation.split, evaluation.metric)
        kept = tuple(e for e in self.evaluations if (e.split, e.metric) != key)
        return self.model_copy(update={"evaluations": (*kept, evaluation)})

    def measured(self, split: str = "test") -> Evaluation | None:
        """The recorded evaluation on a split."""
        return next((e for e in self.evaluations if e.split == split), None)


def read(folder: Path) -> Results:
    """The results in a checkpoint's folder, empty if there are none. Raises CheckpointError for a damaged file."""
    path = folder / FILE
    return parse(path) if path.is_file() else Results()


def beside(folder: Path) -> tuple[Results, str | None]:
    """The results in a checkpoint's folder without evaluations of other weights than are there, if any are, and their
    sha256."""
    weights = folder / tensors.FILE
    own = files.sha256(weights) if weights.is_file() else None
    found = read(folder)
    kept = tuple(e for e in found.evaluations if own in (None, e.checkpoint_sha256))
    return found.model_copy(update={"evaluations": kept}), own


def parse(path: Path) -> Results:
    """A results.json; raises CheckpointError for a damaged one."""
    try:
        return Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise CheckpointError(f"{path}: {first_problem(error)}.") from error


def of(name: str) -> Results:
    """The results that came with this installation for a registered model."""
    return read(paths.path("cards", name))


def write(folder: Path, results: Results) -> None:
    """Write results.json into a checkpoint's folder, whole or not at all."""
    files.atomic_write(folder / FILE, (json.dumps(results.model_dump(mode="json"), indent=1) + "\n").encode())
