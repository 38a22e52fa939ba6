"""Reads and writes results.json: how a checkpoint was trained and what was measured.

Training and evaluation write the file; cards read it. Nothing here imports torch.
"""

import json
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..registry.metrics import Metric
from ..registry.schema import Recipe, Seq, Sha256, Spec, Text
from ..utils import files, paths
from ..utils.text import counted
from . import strict_json, tensors

FILE = "results.json"
MAX_BYTES = 50_000_000


class Evaluation(Spec):
    """One metric of one checkpoint on one split, with everything that is needed to measure it again."""

    model: Text
    task: Text
    dataset: Text
    split: Literal["train", "validation", "test"]
    metric: Metric
    value: Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
    loss: float
    """Mean of the loss that training minimises, see zoo.registry.metrics."""
    n: Annotated[int, Field(ge=1)]
    """Number of examples."""
    by_horizon: dict[str, Annotated[float, Field(ge=0.0, allow_inf_nan=False)]] = {}
    """For target `forecast`: the metric of each output, by its horizon in steps ahead."""
    dataset_sha256: dict[str, Sha256]
    checkpoint_sha256: Sha256
    seed: int | None = None
    """Seed of the training, if known."""
    versions: dict[str, str]
    device: Text
    date: Text
    seconds: float
    command: Text


class RuntimeEvaluation(Evaluation):
    """An Evaluation of the same weights in a runtime other than torch, or rounded to 8 bits."""

    runtime: Text
    """A format of zoo.exports, run in its own runtime; "torch" for the network itself."""
    quantize: Literal["int8"] | None = None


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
    """Training time in seconds since the start of the run, without pauses."""
    diagnostics: dict[str, Seq[float | None]] = {}
    """By diagnostic: one number for each layer, recorded after the epoch by `train --diagnose`."""


def converged(history: Sequence[Epoch], recipe: Recipe) -> bool:
    """Return True if the validation loss has not fallen for `recipe.patience` epochs of the recipe's last stage."""
    last, _ = recipe.timeline[-1]
    losses = [row.validation_loss for row in history[last.start_epoch :]]
    return recipe.patience is not None and bool(losses) and len(losses) > losses.index(min(losses)) + recipe.patience


def collapsed(history: Sequence[Epoch], recipe: Recipe) -> bool:
    """Return True if the validation loss has not been below `recipe.collapse.loss` after `recipe.collapse.epochs` epochs."""
    rule = recipe.collapse
    return rule is not None and len(history) >= rule.epochs and min(r.validation_loss for r in history) >= rule.loss


def ended_early(history: Sequence[Epoch], recipe: Recipe) -> bool:
    """Return True if the run ends before its last epoch: it has converged or collapsed."""
    return converged(history, recipe) or collapsed(history, recipe)


def divergence(epoch: int | None, step: int | None) -> str:
    """Return when a run diverged, such as "step 145 (epoch 1)", or "epoch 3" if the step is unknown."""
    return f"epoch {epoch}" if step is None else f"step {step:,} (epoch {epoch})"


class Training(Spec):
    """How a checkpoint was trained."""

    model: Text
    metric: Metric = "accuracy"
    recipe_name: Text
    recipe: Recipe
    overrides: dict[str, Any] = {}
    """Fields of the registry's recipe that the command line changed."""
    epochs_done: int
    parameters: int
    processes: int
    threads: int | None = None
    """CPU threads of each process at the start of the run, if known. Another number rounds sums differently."""
    device: Text
    """The devices of the run in order, separated by `, then ` if it was continued on another."""
    versions: dict[str, str]
    command: Text
    checkpoint_sha256: Sha256 | None = None
    """The sha256 of the best weights so far, if known."""
    rounded_sha256: Sha256 | None = None
    """The sha256 of those weights rounded to float16, if they are published so."""
    diverged: int | None = None
    """The epoch in which the loss or its gradient became infinite or NaN, if that ended the run."""
    diverged_step: int | None = None
    """The optimizer step in which that happened, counted from 1 over all epochs, if known."""
    history: Seq[Epoch] = ()

    @property
    def best(self) -> Epoch | None:
        """The epoch with the lowest validation loss, whose weights are kept."""
        return min(self.history, key=lambda row: row.validation_loss, default=None)

    def produced(self, sha256: str) -> bool:
        """Return whether this training produced the weights with this sha256, or may have if it recorded no digest."""
        may_have = self.checkpoint_sha256 is None or sha256 in (self.checkpoint_sha256, self.rounded_sha256)
        return bool(self.history) and may_have

    @property
    def divergence(self) -> str:
        """When the run diverged, as text: see `divergence`."""
        return divergence(self.diverged, self.diverged_step)

    @property
    def progress(self) -> str:
        """How many of its epochs the run has done, such as "3 of 8 epochs"."""
        return f"{self.epochs_done} of {counted(self.recipe.epochs, 'epoch')}"

    @property
    def settings(self) -> dict[str, Any]:
        """What runs have in common that differ in nothing but their seeds: the model and the recipe's settings."""
        return {**self.recipe.settings, "seed": None, "model": self.model}

    @property
    def ending(self) -> str:
        """Why the run ended before its last epoch, as text that other text follows; "" if it did not."""
        if self.epochs_done >= self.recipe.epochs or not ended_early(self.history, self.recipe):
            return ""
        still = converged(self.history, self.recipe)
        why = f"fallen for {counted(self.recipe.patience or 0, 'epoch')}" if still else "left chance"
        return f"ended early because the validation loss had not {why}, "

    @property
    def finished(self) -> bool:
        """True if all epochs are done or the run has converged or collapsed."""
        return self.epochs_done >= self.recipe.epochs or ended_early(self.history, self.recipe)


class Results(Spec):
    """The content of results.json."""

    training: Training | None = None
    evaluations: Seq[Evaluation] = ()
    runtimes: Seq[RuntimeEvaluation] = ()
    other_seeds: Seq[Evaluation] = ()
    """The test metric of other runs of the same recipe, whose weights are not published, one for each seed."""
    collapsed_seeds: Seq[int] = ()
    """Seeds of the runs in `other_seeds` that collapsed."""
    diverged_seeds: Seq[int] = ()
    """Seeds of further runs of the same recipe, which diverged, so that they are not in `other_seeds`."""

    @property
    def unmeasurable(self) -> bool:
        """True if the run diverged in its first epoch, so that it has no weights to measure."""
        return self.training is not None and self.training.diverged is not None and not self.training.history

    def record(self, evaluation: Evaluation) -> "Results":
        """Return a copy in which `evaluation` replaces an earlier one of the same split, metric, runtime and rounding."""
        elsewhere = isinstance(evaluation, RuntimeEvaluation)
        field = "runtimes" if elsewhere else "evaluations"
        key = attrgetter("split", "metric", *(["runtime", "quantize"] if elsewhere else []))
        kept = (e for e in getattr(self, field) if key(e) != key(evaluation))
        return self.model_copy(update={field: (*kept, evaluation)})

    def of_weights(self, sha256: str | None) -> "Results":
        """Return a copy without the evaluations of weights with another digest. None: there are no weights; return all."""
        if sha256 is None:
            return self
        lists = {"evaluations": self.evaluations, "runtimes": self.runtimes}
        kept = {name: tuple(e for e in each if e.checkpoint_sha256 == sha256) for name, each in lists.items()}
        return self.model_copy(update=kept)

    def of_rounded(self, sha256: str) -> "Results":
        """Return a copy for the same weights rounded to float16, in a file with this digest, without evaluations of others."""
        training = self.training and self.training.model_copy(update={"rounded_sha256": sha256})
        return self.of_weights(sha256).model_copy(update={"training": training})

    def measured(self, split: str = "test") -> Evaluation | None:
        """Return the first evaluation on `split`, or None if there is none."""
        return next((e for e in self.evaluations if e.split == split), None)

    def over_seeds(self, split: str = "test") -> tuple[Evaluation, ...]:
        """Return the evaluations on `split` of all runs by one recipe, that of `measured` first; () if there is none.

        A run that diverged after its first epoch counts only if there is no other, as runs in `diverged_seeds` do not count.
        """
        first, others = self.measured(split), tuple(e for e in self.other_seeds if e.split == split)
        if first is None:
            return ()
        return others if others and self.lost_first else (first, *others)

    @property
    def lost_first(self) -> bool:
        """True if the run that `training` describes diverged, while other seeds' runs were measured."""
        return self.training is not None and self.training.diverged is not None and bool(self.other_seeds)


def read(folder: Path) -> Results:
    """Return the results in a checkpoint's folder, empty if there is no results.json.

    Raises CheckpointError if the file is damaged.
    """
    path = folder / FILE
    return parse(path) if path.exists() else Results()


def read_current(folder: Path) -> tuple[Results, str | None]:
    """Return (results, sha256): the results in a checkpoint's folder, and the digest of its weights.

    Evaluations of other weights are left out. If the folder has no weights, all evaluations are kept, and sha256 is None.
    Raises CheckpointError if results.json is damaged.
    """
    weights = folder / tensors.FILE
    sha256 = files.sha256(weights) if weights.is_file() else None
    return read(folder).of_weights(sha256), sha256


def parse(path: Path) -> Results:
    """Return the content of a results.json. Raises CheckpointError if the file is missing or damaged."""
    return strict_json.read(path, Results, MAX_BYTES)


def for_model(name: str) -> Results:
    """Return the results of a registered model from cards/NAME, empty if there are none. Raises CheckpointError."""
    return read(paths.path("cards", name))


def write(folder: Path, results: Results) -> None:
    """Replace results.json in a checkpoint's folder by `results`, atomically."""
    files.atomic_write(folder / FILE, (json.dumps(results.model_dump(mode="json"), indent=1) + "\n").encode())
