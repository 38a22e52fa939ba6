"""Measures a checkpoint's metric on a split, and records the result with everything needed to measure it again."""

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from ..checkpoints import results
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.references import Reference
from ..checkpoints.sources import resolve
from ..data import task_data
from ..data.base import IGNORED, Split, SplitName
from ..errors import CheckpointError, DataError, RequestError, TrainingError, shown
from ..exports.running import running
from ..networks import loading
from ..networks.base import ConfiguredModule, evaluating, resolve_device
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..registry import load_registry
from ..registry.metrics import TARGETS, Target
from ..registry.schema import Config, Task
from ..utils import files, paths
from ..utils.provenance import command, device_name, today, versions
from . import Recorder

BATCH_SIZE = 500
RECORDED_EXAMPLES = 64
"""Number of validation examples on which recorders compute their diagnostics."""


@dataclass(frozen=True)
class Measured:
    """The mean loss and the metric over `n` examples; zoo.registry.metrics defines both."""

    loss: float
    metric: float
    n: int
    by_output: tuple[float, ...] = ()
    """The metric of each output if the target is `forecast`; empty for other targets."""


def evaluate(
    checkpoint: Checkpoint | str | os.PathLike[str], *, split: SplitName = "test", limit: int | None = None,
    batch_size: int = BATCH_SIZE, device: str | None = None, runtime: str | None = None, quantize: str | None = None,
    report: Callable[[int, int], None] = lambda done, n: None,
) -> results.Evaluation:  # fmt: skip
    """Measure the metric of a checkpoint's task on a split, or on its first `limit` examples, and return the evaluation.

    checkpoint: a resolved Checkpoint, or a name, folder or address as `load` takes it. report(done, n) is called after every
    batch, with the number of examples measured so far and in all. runtime: a format of zoo.exports whose own runtime computes
    the logits from an exported file; None for torch. quantize: "int8" for 8-bit weights. With `runtime` or
    `quantize`, the result is a RuntimeEvaluation.

    Raises the errors of `load`; CheckpointError if the weights were replaced while they were read; DataError if the data are
    missing or differ from the digests in cards/lock.json; TrainingError if the loss is not finite; and RequestError if the checkpoint does not fit its task, or
    for a batch size or limit below 1.
    """
    if batch_size < 1 or (limit is not None and limit < 1):
        raise RequestError(f"The batch size and the limit must be at least 1; got {batch_size} and {limit}.")
    if runtime and device is not None and resolve_device(device).type != "cpu":
        raise RequestError(f"The runtime {runtime} runs on the CPU. Leave out the device.")
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = resolve(Reference.parse(checkpoint))
    config = checkpoint.config
    task = task_of(config)
    version = _file_version(checkpoint.weights)
    network = loading.assemble(checkpoint, device="cpu" if runtime else resolve_device(device))
    sha256 = checkpoint.weights_sha256
    if _file_version(checkpoint.weights) != version:  # a training goes on there
        raise CheckpointError(f"{checkpoint.weights} was replaced while rnnzoo read it. Try again.")
    source = task_data(task)
    words, expected_words = (t.words if t else () for t in (network.tokenizer, source.tokenizer))
    if words != expected_words:
        raise RequestError(
            f"{checkpoint.reference.text} does not have the vocabulary of its task, {config.task} ({len(words):,} and "
            f"{len(expected_words):,} words, not all equal). Restore the vocabulary.txt that the network was trained with."
        )
    data = source.split(split)
    if runtime and data.stream:
        raise RequestError(f"Only torch can evaluate {config.task}, which is one long text. Leave out the runtime.")
    seed = _training_seed(checkpoint)  # before the work, since results.json may be damaged
    elsewhere: dict[str, Any] = {"runtime": runtime or "torch", "quantize": quantize} if runtime or quantize else {}
    with running(network, runtime or "torch", quantize) if elsewhere else nullcontext(network) as measured_network:
        began = time.monotonic()
        measured = measure(measured_network, data, task.target, batch_size, limit, report)
        seconds = time.monotonic() - began
    if not (math.isfinite(measured.loss) and math.isfinite(measured.metric)):
        raise TrainingError(
            f"The loss of {checkpoint.reference.text} on the {split} data is {measured.loss}: the network's states overflow there. "
            f"Train it with a lower learning rate or gradient clipping (max_grad_norm).{data.doubt}"
        )
    return (results.RuntimeEvaluation if elsewhere else results.Evaluation)(
        model=config.name, task=config.task, dataset=task.dataset, split=split,
        metric=TARGETS[task.target].metric, value=measured.metric, loss=measured.loss, n=measured.n,
        by_horizon=dict(zip(map(str, task.horizons), measured.by_output, strict=True)),
        dataset_sha256=data.digests, checkpoint_sha256=sha256, seed=seed, versions=versions(),
        device=device_name(network.device), date=today(), seconds=round(seconds, 2), command=command(), **elsewhere,
    )  # fmt: skip


def _file_version(path: Path) -> tuple[int, int, int] | None:
    """Return (inode, time of the last write in ns, size), which change with the file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _training_seed(checkpoint: Checkpoint) -> int | None:
    """Return the seed that the weights were trained with, or None if no results.json describes these weights."""
    if checkpoint.reference.repo is not None:
        return None
    training = results.read(results_folder(checkpoint.reference)).training
    return training.recipe.seed if training and training.produced(checkpoint.weights_sha256) else None


def task_of(config: Config, outputs: bool = True) -> Task:
    """Return the registry's task that a config names. Raises RequestError if the task is unknown or does not fit the config.

    outputs: True to compare the outputs, readout and classes too, not only the input.
    """
    tasks = load_registry().all_tasks
    if config.task not in tasks:
        raise RequestError(
            f"The task of {config.name}, {config.task!r}, is not in the registry, so there are no data for it. Use a "
            "checkpoint of a registered task, or add the task to registry.yaml."
        )
    interface, task = config.interface, tasks[config.task]
    parts = ("input", "vocabulary", "form", *(("outputs", "readout") if outputs else ()))
    if any(getattr(interface, part) != getattr(task, part) for part in parts):
        wanted, given = (
            f"steps of {shapes.step_text} and {shapes.outputs} outputs, readout {shapes.readout}, form {shapes.form}"
            for shapes in (task, interface)
        )
        raise RequestError(
            f"The checkpoint of {config.name} does not fit {config.task}, which has {wanted}. The checkpoint has {given}. Use "
            "a checkpoint that was trained on this task."
        )
    if outputs and interface.classes and interface.classes != task.classes:
        raise RequestError(
            f"The checkpoint of {config.name} does not fit {config.task}: its classes are {shown(interface.classes)}, those "
            f"of the task are {shown(task.classes)}. Use a checkpoint of this task or, if only the names differ, correct "
            "`classes` in its config.json."
        )
    return task


RECORDING_SECONDS = 5.0
"""How long `record` waits for another process, such as one that records too; a training run takes longer."""


def check_recordable(name_or_path: str | os.PathLike[str]) -> None:
    """Raise StorageError if a training run is at work in the checkpoint's folder, so that `record` would fail."""
    folder = results_folder(Reference.parse(name_or_path))
    if folder.is_dir():
        with files.exclusive_lock(folder, seconds=RECORDING_SECONDS):
            pass


def record(name_or_path: str | os.PathLike[str], evaluation: results.Evaluation) -> Path:
    """Store an evaluation in the results.json of its checkpoint, and return the path of that file.

    Raises CheckpointError if the folder's weights changed after the evaluation, or if its results.json describes the
    training of other weights; StorageError while a training run writes to the folder; and RequestError for a repository on
    the Hub or for a model in an installed package.
    """
    reference = Reference.parse(name_or_path)
    folder = results_folder(reference)
    if reference.model is not None:
        paths.writable()
    folder.mkdir(parents=True, exist_ok=True)
    with files.exclusive_lock(folder, seconds=RECORDING_SECONDS):
        current, sha256 = results.read_current(folder)
        if sha256 not in (None, evaluation.checkpoint_sha256):  # cards/NAME need not have the weights
            raise CheckpointError(
                f"The weights in {folder} changed after they were evaluated, so the result was not recorded. Evaluate again."
            )
        if current.training and not current.training.produced(evaluation.checkpoint_sha256):
            raise CheckpointError(
                f"{folder}: {results.FILE} describes the training of other weights (the digests differ), so the result was "
                f"not recorded. Restore those weights, or remove `training` from {results.FILE}."
            )
        results.write(folder, current.record(evaluation))
    return folder / results.FILE


def results_folder(reference: Reference) -> Path:
    """Return the folder of a checkpoint's results.json: cards/NAME for a registered model, else the checkpoint's folder.

    Raises RequestError for a repository on the Hub.
    """
    if reference.model is not None:
        return paths.path("cards", reference.model)
    if reference.folder is not None:
        return reference.folder
    raise RequestError(
        f"{reference.text} is on the Hub, so there is no folder on this machine for its results. Copy it into a folder: rnnzoo "
        f"pull {reference.text} --to FOLDER"
    )


@torch.inference_mode()
def measure(
    network: ConfiguredModule, split: Split, target: Target, batch_size: int, limit: int | None = None,
    report: Callable[[int, int], None] = lambda done, n: None,
) -> Measured:  # fmt: skip
    """Return the mean loss and metric of a network, in eval mode, on a split or on its first `limit` examples.

    A stream (Split.stream) is read one window at a time, from the first, and the state is carried from each window to the
    next; `batch_size` is ignored. Raises DataError for examples without any target, of a forecast at some horizon.
    """
    n = len(split) if limit is None else min(limit, len(split))
    outputs = split.targets.shape[-1] if target == "forecast" else 1
    sums, state = torch.zeros(outputs, 3, dtype=torch.float64), None
    with evaluating(network):
        for indices in torch.arange(n).split(1 if split.stream else min(batch_size, n)):
            x, y, lengths = split.batch(indices, network.device)
            x = x.to(network.dtype) if x.is_floating_point() else x
            if split.stream:
                logits, state = cast(RecurrentNetwork, network).resume(x, state)
            else:
                logits = network(x, lengths)
            parts = zip(logits.split(1, -1), y.split(1, -1), strict=True) if outputs > 1 else [(logits, y)]
            sums += torch.stack([torch.stack(score(target, *part)) for part in parts]).cpu().double()
            report(int(indices[-1]) + 1, n)
    finish, (loss, metric, targets) = TARGETS[target].of_mean, sums.sum(0).tolist()
    if not sums[:, 2].all():
        kind = "a target" if targets == 0 else "a target at every horizon"
        raise DataError(
            f"None of these {n:,} examples has {kind}, so {network.config.name} cannot be measured on them. Measure more examples, or another split."
        )
    by_output = tuple(finish(total / count) for _, total, count in sums.tolist()) if target == "forecast" else ()
    return Measured(loss / targets, finish(metric / targets), n, by_output)


def diagnose(
    network: Network, split: Split, target: Target, recorders: Mapping[str, Recorder]
) -> dict[str, tuple[float | None, ...]]:
    """Return the values of each recorder by its name, one for each layer, computed on the first examples of `split`.

    None stands for a value that is infinite or NaN.
    """
    if not recorders:
        return {}
    x, y, lengths = split.batch(torch.arange(min(RECORDED_EXAMPLES, len(split))), network.device)
    found = {name: recorder(network, x, y, lengths, target) for name, recorder in recorders.items()}
    return {name: tuple(v if math.isfinite(v) else None for v in values) for name, values in found.items()}


def score(
    target: Target,
    outputs: Tensor,  # (batch, outputs) or (batch, time, outputs)
    targets: Tensor,  # classes: (batch,) or (batch, time); values and binary: the shape of outputs (see zoo.data.base.Split)
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (loss, metric, count), scalars: sums over the targets that are not missing, and the number of these targets."""
    if target in ("class", "token"):
        logits, classes = outputs.flatten(0, -2).float(), targets.flatten().long()
        counted = classes != IGNORED
        loss = F.cross_entropy(logits, classes, ignore_index=IGNORED, reduction="sum")
        metric = loss.detach() if target == "token" else ((logits.argmax(-1) == classes) & counted).sum().float()
        return loss, metric, counted.sum().float()
    if target == "binary":
        counted = targets[..., 0] != IGNORED
        loss = F.binary_cross_entropy_with_logits(outputs[counted].float(), targets[counted].float(), reduction="sum")
        return loss, loss.detach(), counted.sum().float()
    predicted, values = outputs.flatten(0, -2).float(), targets.flatten(0, -2)
    counted = ~values.isnan()
    loss = torch.where(counted, predicted - values.nan_to_num(), 0).square().sum()
    return loss, loss.detach(), counted.sum().float()
