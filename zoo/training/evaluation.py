"""Checkpoint to result: the metric on a split, with all that is needed to measure it again."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from ..checkpoints import results
from ..checkpoints.checkpoint import resolve
from ..checkpoints.reference import Reference
from ..data import task_data
from ..data.base import IGNORED, Split, SplitName
from ..errors import CheckpointError, RequestError
from ..networks import loading
from ..networks.devices import resolve_device
from ..networks.network import Network
from ..registry import load_registry, models
from ..registry.metrics import TARGETS, Target
from ..registry.schema import Config, Task
from ..utils import files, paths
from ..utils.provenance import command, device_name, today, versions

BATCH_SIZE = 500


@dataclass(frozen=True)
class Measured:
    """Means of loss and metric (see zoo.registry.metrics) over `n` examples."""

    loss: float
    metric: float
    n: int


def evaluate(
    name_or_path: str | os.PathLike[str], *, split: SplitName = "test", limit: int | None = None, batch_size: int = BATCH_SIZE,
    device: str | None = None, report: Callable[[int, int], None] = lambda done, n: None,
) -> results.Evaluation:  # fmt: skip
    """Load a checkpoint as `load` does and measure its task's metric on a split, or on its first `limit` examples.

    report(done, n) is called after every batch. Raises what `load` raises, DataError, and RequestError.
    """
    if batch_size < 1 or (limit is not None and limit < 1):
        raise RequestError("The batch size and the limit must be at least 1.")
    checkpoint = resolve(Reference.parse(name_or_path))
    config, weights = checkpoint.config, checkpoint.weights
    task = task_of(config)
    before = files.sha256(weights) if weights.exists() else None
    network = loading.assemble(checkpoint, device=resolve_device(device))
    sha256 = files.sha256(weights)
    if sha256 != before:  # by a training that goes on
        raise CheckpointError(f"{weights} was replaced while it was read. Try again.")
    training = results.read(results_folder(name_or_path)).training
    if training and not training.produced(sha256):
        training = None
    source = task_data(task, load_registry().datasets[task.dataset])
    mine, words = (t.words if t else () for t in (network.tokenizer, source.tokenizer))
    if mine != words:
        raise RequestError(f"This checkpoint was trained with other words than {config.task} has.")
    data = source.split(split)
    began = time.monotonic()
    measured = measure(network, data, task.target, batch_size, limit, report)
    return results.Evaluation(
        model=config.name, task=config.task, dataset=task.dataset, split=split,
        metric=TARGETS[task.target].metric, value=measured.metric, loss=measured.loss, n=measured.n,
        dataset_sha256=data.digests, checkpoint_sha256=sha256,
        seed=training.recipe.seed if training else None, versions=versions(), device=device_name(network.device),
        date=today(), seconds=round(time.monotonic() - began, 2), command=command(),
    )  # fmt: skip


def task_of(config: Config, outputs: bool = True) -> Task:
    """The registry's task that a network is for. Raises RequestError where there is none, or where it does not fit it.

    outputs: whether those have to fit, too, and not only what goes in.
    """
    tasks = load_registry().all_tasks
    if config.task not in tasks:
        raise RequestError(f"The task {config.task!r} of this checkpoint is not in the registry, so it has no data.")
    own, task = config.interface, tasks[config.task]
    parts = ("input", "vocabulary", "form", *(("outputs", "readout") if outputs else ()))
    if any(getattr(own, part) != getattr(task, part) for part in parts):
        shape = f"steps of {task.step_text} and {task.outputs} outputs, readout {task.readout}"
        raise RequestError(f"This checkpoint does not fit {config.task}, which has {shape}.")
    if outputs and own.classes and own.classes != task.classes:
        raise RequestError(f"This checkpoint does not fit {config.task}, whose classes are others.")
    return task


def record(name_or_path: str | os.PathLike[str], found: results.Evaluation) -> Path:
    """Keep an evaluation beside its checkpoint; returns the file. Raises CheckpointError if the weights there are others by
    now, StorageError while a run trains there, and RequestError for an installed package."""
    folder = results_folder(name_or_path)
    if os.fspath(name_or_path) in models():
        paths.writable()
    folder.mkdir(parents=True, exist_ok=True)
    with files.exclusive_lock(folder, wait=False):
        known, own = results.read_current(folder)
        if own not in (None, found.checkpoint_sha256):  # None: a card's folder need not have the weights
            raise CheckpointError(f"{folder} has other weights by now; not recorded. Try again.")
        results.write(folder, known.record(found))
    return folder / results.FILE


def results_folder(name_or_path: str | os.PathLike[str]) -> Path:
    """Where results.json of a checkpoint is kept: cards/NAME for a registered name, the folder itself otherwise."""
    name = os.fspath(name_or_path)
    return paths.path("cards", name) if name in models() else Path(name)


@contextmanager
def evaluating(network: Network) -> Iterator[None]:
    """Put a network into eval mode; each of its modules gets the mode back that it had."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@torch.inference_mode()
def measure(
    network: Network, split: Split, target: Target, batch: int, limit: int | None = None,
    report: Callable[[int, int], None] = lambda done, n: None,
) -> Measured:  # fmt: skip
    """Loss and metric of a network, in eval mode, on a split or its first `limit` examples."""
    n = len(split) if limit is None else min(limit, len(split))
    sums = torch.zeros(3, dtype=torch.float64)
    with evaluating(network):
        for indices in torch.arange(n).split(batch):
            x, y, lengths = split.batch(indices, network.device)
            x = x.to(network.dtype) if x.is_floating_point() else x
            sums += torch.stack(score(target, network(x, lengths), y)).cpu().double()
            report(int(indices[-1]) + 1, n)
    loss, metric, targets = sums.tolist()
    return Measured(loss / targets, metric / targets, n)


def score(target: Target, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over the targets that count: loss, metric (see zoo.registry.metrics), and their number.

    outputs: (batch, outputs) or (batch, time, outputs). targets: classes, the same without the last dimension, IGNORED
    where there is none; or values, the same, NaN where there is none.
    """
    flat, y = outputs.flatten(0, -2).float(), targets.flatten() if target == "class" else targets.flatten(0, -2)
    if target == "class":
        counted = y != IGNORED
        loss = F.cross_entropy(flat, y, ignore_index=IGNORED, reduction="sum")
        return loss, ((flat.argmax(-1) == y) & counted).sum().float(), counted.sum().float()
    counted = ~y.isnan()
    loss = torch.where(counted, flat - y.nan_to_num(), 0).square().sum()
    return loss, loss.detach(), counted.sum().float()
