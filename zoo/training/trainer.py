"""Recipe to checkpoint: training that can be killed at any moment and goes on as if it had not been.

Nothing random is carried from step to step: the order of an epoch comes from (seed, epoch), everything else that is
drawn in a step from (seed, step, process). So the state is the weights, the optimizer and a few sums, written atomically
to one file (zoo.training.state), and a run that is interrupted and continued computes what an uninterrupted one does.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints import results, tensors
from ..checkpoints.checkpoint import FILES
from ..data import task_data
from ..data.base import Split
from ..errors import CheckpointError, RequestError, TrainingError
from ..networks import loading
from ..networks.builder import build
from ..networks.sequence_network import SequenceNetwork
from ..networks.sizes import parameters
from ..registry import Entry
from ..registry.metrics import TARGETS
from ..registry.schema import Recipe
from ..utils import files
from ..utils.files import interruptions
from ..utils.provenance import command, device_name, versions
from . import Recorder, state
from .evaluation import BATCH_SIZE, measure
from .loop import Updater
from .optimizers import schedule
from .processes import make_accelerator
from .state import State

SAVE_SECONDS = 60.0
RECORDED_EXAMPLES = 64
"""Number of validation examples that recorders see."""


@dataclass(frozen=True)
class Progress:
    """Where a run is, reported after every step; loss and metric (see zoo.registry.metrics) are means over the epoch so far."""

    epoch: int
    epochs: int
    step: int
    steps: int
    """The step that this call ends with."""
    loss: float
    metric: float
    rate: float
    """Steps per second since this process began."""
    finished: results.Epoch | None = None
    """The epoch's row of the history, if the step ended an epoch."""

    @property
    def remaining(self) -> float:
        """Seconds left at the present rate."""
        return (self.steps - self.step) / self.rate if self.rate else math.inf


def train(
    entry: Entry, out: Path, *, device: str | None = None, overrides: dict[str, Any] | None = None,
    report: Callable[[Progress], None] = lambda progress: None, save_seconds: float = SAVE_SECONDS,
    stop_after: int | None = None, recorders: Mapping[str, Recorder] = {},
) -> results.Training:  # fmt: skip
    """Train `entry` by its recipe into the folder `out`, continuing a run that is there; return how it went so far.

    `out` gets model.safetensors and config.json (the weights with the lowest validation loss so far), results.json, and
    the state to continue from.

    overrides: recipe fields to change, such as {"epochs": 3}; a run can only be continued with the settings it began with.
    stop_after: the epoch to stop after for now; a call without it goes on from there.
    recorders: diagnostics that are recorded into the history after every epoch, by name, of the first validation examples.

    Raises TrainingError; RequestError if `out` cannot be a folder or a recorder refuses the network; StorageError if another
    process trains in `out`; and, after saving, KeyboardInterrupt on SIGINT or SIGTERM.
    """
    torch.set_flush_denormal(True)  # before anything runs in parallel; see builder.build
    if any(path.exists() and not path.is_dir() for path in (out, *out.parents)):
        raise RequestError(f"{out} is a file or lies below one. Choose a folder for the run.")
    if stop_after is not None and stop_after < 1:
        raise RequestError(f"The epoch to stop after is 1 or more, not {stop_after}.")
    recipe = entry.recipe_with(overrides or {})
    accelerator = make_accelerator(recipe, device)
    data = task_data(entry.task, entry.dataset)
    run = TrainingRun(
        entry, recipe, overrides or {}, out, accelerator, data.split("train"), data.split("validation"), recorders
    )
    data.attach_tokenizer(run.network)
    run.record_diagnostics()  # what cannot be recorded is better refused now than after an epoch
    out.mkdir(parents=True, exist_ok=True)
    lock = files.exclusive_lock(out, wait=False) if accelerator.is_main_process else nullcontext()
    with interruptions(most=1) as interrupted, lock:
        run.resume()
        run.go(report, save_seconds, interrupted, stop_after)
    accelerator.wait_for_everyone()
    if accelerator.num_processes > 1:
        accelerator.end_training()
    return results.read(out).training or run.summary()


class TrainingRun:
    """One run: its parts, the counters that change from step to step, and how they are saved and restored."""

    def __init__(
        self, entry: Entry, recipe: Recipe, overrides: dict[str, Any], out: Path, accelerator: Any, train: Split,
        validation: Split, recorders: Mapping[str, Recorder],
    ):  # fmt: skip
        self.entry, self.recipe, self.overrides, self.out = entry, recipe, overrides, out
        self.accelerator, self.train, self.validation, self.recorders = accelerator, train, validation, recorders
        self.device: torch.device = accelerator.device
        self.target = entry.task.target
        self.network = build(entry.config, device=self.device, seed=recipe.seed)
        if isinstance(self.network, SequenceNetwork):
            self.network.tbptt_steps, self.network.checkpoint_every = recipe.tbptt_steps, recipe.checkpoint_every
        elif recipe.tbptt_steps is not None or recipe.checkpoint_every is not None:
            raise RequestError(
                f"{entry.name} is feed-forward: without time steps, leave out tbptt_steps and checkpoint_every."
            )
        self.updater = Updater(
            self.network, recipe.optimizer, self.target, max_grad_norm=recipe.max_grad_norm,
            gradient_flow_penalty=recipe.gradient_flow_penalty, accelerator=accelerator,
        )  # fmt: skip
        self.steps_per_epoch = len(train) // recipe.batch_size
        if self.steps_per_epoch == 0:
            raise TrainingError(f"A batch of {recipe.batch_size} is larger than the {len(train)} training examples.")
        if train.image is None and any(stage.augments for stage, _ in recipe.timeline):
            raise TrainingError(
                f"The recipe of {entry.name} augments images, but its training examples are not images."
            )
        self.identity = state.identity(entry.config, recipe, train.digests, len(train), accelerator.num_processes)
        self.step = 0
        self.sums = torch.zeros(4, dtype=torch.float64)  # loss, metric, targets, gradient norm over this epoch
        self.history: list[results.Epoch] = []
        self.weights_sha256: str | None = None  # of the best weights
        self.diverged_epoch: int | None = None
        self.threads: int | None = torch.get_num_threads()
        self.devices = device_name(self.device)
        self.earlier_seconds = 0.0  # of training before this process took over
        self.began = time.monotonic()

    # from step to step

    def go(
        self, report: Callable[[Progress], None], save_seconds: float, interrupted: Callable[[], int],
        stop_after: int | None,
    ) -> None:  # fmt: skip
        """Train to the last epoch, to `stop_after`, or until interrupted; save after every epoch and `save_seconds`."""
        first_step, saved = self.step, time.monotonic()
        last_step = min(stop_after or self.recipe.epochs, self.recipe.epochs) * self.steps_per_epoch
        while self.step < last_step and not results.converged(self.history, self.recipe):
            epoch = self.step // self.steps_per_epoch
            for indices in self._remaining_batches(epoch):
                stop = self._any_process(interrupted() > 0)
                self._update(indices, epoch)
                rate = (self.step - first_step) / (time.monotonic() - self.began)
                loss, metric, _ = self._means()
                finished = self._end_epoch(epoch) if self.step % self.steps_per_epoch == 0 else None
                if self.accelerator.is_main_process:
                    report(Progress(epoch + 1, self.recipe.epochs, self.step, last_step, loss, metric, rate, finished))
                if finished is not None or stop or time.monotonic() - saved > save_seconds:
                    self.save()
                    saved = time.monotonic()
                if stop:
                    raise KeyboardInterrupt

    def _remaining_batches(self, epoch: int) -> Iterator[Tensor]:
        """Indices of the examples of each batch of an epoch that is still to come; a last incomplete batch is left out."""
        generator = torch.Generator().manual_seed(_seed(self.recipe.seed, epoch))
        order = torch.randperm(len(self.train), generator=generator)
        batches = order.split(self.recipe.batch_size)[: self.steps_per_epoch]
        return iter(batches[self.step % self.steps_per_epoch :])

    def _any_process(self, stop: bool) -> bool:
        """True if any process wants to stop, so that all stop after the same step."""
        if self.accelerator.num_processes == 1:
            return stop
        return bool(self.accelerator.reduce(torch.tensor(float(stop), device=self.device), "sum") > 0)

    def _update(self, indices: Tensor, epoch: int) -> None:
        """Make one optimizer step on a batch, of which this process takes its share."""
        stage, schedule_epochs = self.recipe.stage(epoch)
        stage_step = self.step - stage.start_epoch * self.steps_per_epoch
        if stage_step == 0:
            self.updater.reset_optimizer()
        self.updater.lr = stage.lr * schedule(stage.schedule, stage_step, schedule_epochs * self.steps_per_epoch)
        torch.manual_seed(_seed(self.recipe.seed, self.step, self.accelerator.process_index))
        share = indices.chunk(self.accelerator.num_processes)[self.accelerator.process_index]
        update = self.updater.update(*self.train.batch(share, self.device, stage))
        measured = torch.stack([update.loss, update.metric, update.targets, update.gradient_norm]).cpu().double()
        self.step += 1
        scaled = self.recipe.precision == "fp16"  # its scaler meets infinite gradients now and then, and skips them
        if not measured[: 3 if scaled else 4].isfinite().all():
            raise self._diverged("the loss or its gradient")
        self.sums += measured.nan_to_num(posinf=0.0)
        self.diverged_epoch = None

    def _diverged(self, value: str) -> TrainingError:
        """Note in the results that this step's epoch diverged; return the error to raise."""
        self.diverged_epoch = (self.step - 1) // self.steps_per_epoch + 1
        if self.accelerator.is_main_process:
            self._write_results()
        best = ", and so are the best weights so far" if self.history else ""
        return TrainingError(
            f"{self.entry.name} diverged in step {self.step} (epoch {self.diverged_epoch}): {value} is not finite. "
            f"The last good state is in {self.out}{best}."
        )

    def _means(self) -> tuple[float, float, float]:
        """Mean loss, metric and gradient norm over the epoch so far."""
        loss, metric, targets, norms = self.sums.tolist()
        return loss / targets, metric / targets, norms / ((self.step - 1) % self.steps_per_epoch + 1)

    def _end_epoch(self, epoch: int) -> results.Epoch:
        """Validate, keep the weights if they are the best yet, and add a row to the history."""
        loss, metric, norm = self._means()
        measured = measure(self.network, self.validation, self.target, BATCH_SIZE)
        if not math.isfinite(measured.loss):
            raise self._diverged("the validation loss")
        row = results.Epoch(
            epoch=epoch + 1, lr=self.updater.lr, train_loss=loss, train_metric=metric,
            validation_loss=measured.loss, validation_metric=measured.metric, gradient_norm=norm,
            seconds=round(self.seconds, 1), diagnostics=self.record_diagnostics(),
        )  # fmt: skip
        best = min((past.validation_loss for past in self.history), default=math.inf)
        self.history.append(row)
        self.sums.zero_()
        # weights first, state second: killed in between, the epoch's end is computed again to the same bytes
        if row.validation_loss < best and self.accelerator.is_main_process:
            loading.save(self.network, self.out)
            self.weights_sha256 = files.sha256(self.out / tensors.FILE)
        return row

    def record_diagnostics(self) -> dict[str, tuple[float | None, ...]]:
        """What each recorder says of the network as it is."""
        if not self.recorders:
            return {}
        indices = torch.arange(min(RECORDED_EXAMPLES, len(self.validation)))
        x, y, lengths = self.validation.batch(indices, self.device)
        return {
            name: tuple(record(self.network, x, y, lengths, self.target)) for name, record in self.recorders.items()
        }

    @property
    def seconds(self) -> float:
        """Time spent on training, in all processes that took their turn."""
        return self.earlier_seconds + time.monotonic() - self.began

    # saved and restored

    def save(self) -> None:
        """Write the results and then the state, which is what makes them count; only the main process writes."""
        if not self.accelerator.is_main_process:
            return
        self._write_results()
        scaler = self.accelerator.scaler
        State(
            self.identity, self.step, self.seconds, self.sums, self.history, self.weights_sha256,
            scaler=None if scaler is None else scaler.state_dict(), network=self.network.state_dict(),
            optimizer=self.updater.optimizer.state_dict()["state"],
        ).write(self.out / state.FILE)  # fmt: skip

    def _write_results(self) -> None:
        """Write how the run went so far, beside the evaluations of the weights that are in the folder."""
        measured, _ = results.read_current(self.out)
        results.write(self.out, measured.model_copy(update={"training": self.summary()}))

    def resume(self) -> None:
        """Continue from the state in the folder, or write the first one. Raises TrainingError if it belongs to another run."""
        path = self.out / state.FILE
        for name in (*FILES, results.FILE, state.FILE) if self.accelerator.is_main_process else ():
            files.remove_partials(self.out / name)
        if path.exists():
            stored = State.read(path)
            if stored.step > 0:  # a run that made no step has nothing to lose, so any other may begin here
                self._restore(stored)
        elif (self.out / tensors.FILE).exists():
            raise TrainingError(
                f"{self.out} has weights but no state that their training could go on from. Choose another --out, or "
                "remove that folder."
            )
        previous = self._previous_summary()
        if self.step == 0 or previous is None:
            self.save()
        else:
            self._restore_summary(previous)
        self.accelerator.wait_for_everyone()
        own_step = torch.tensor([self.step if path.exists() else -1], device=self.device)
        if self.accelerator.gather(own_step).unique().numel() > 1:
            raise TrainingError(f"Not every process finds the state in {self.out}. Put it on a disk that all share.")

    def _restore(self, stored: State) -> None:
        """Take over a stored state. Raises TrainingError if it is not of this run or its best weights are missing."""
        path = self.out / state.FILE
        if setting := state.changed_setting(self.identity, stored.identity):
            raise TrainingError(
                f"{self.out} holds a run with another {setting}. Choose another --out, or remove that folder."
            )
        if tensors.differences(self.network.state_dict(), stored.network):
            raise state.not_a_state(path)
        if stored.history and not (self.out / tensors.FILE).exists():
            raise TrainingError(
                f"{self.out} has lost its best weights: model.safetensors is missing. Delete the folder to begin the run again."
            )
        self.network.load_state_dict(stored.network)
        optimizer = self.updater.optimizer
        optimizer.load_state_dict({**optimizer.state_dict(), "state": stored.optimizer})
        if stored.scaler is not None:
            self.accelerator.scaler.load_state_dict(stored.scaler)
        self.step, self.sums, self.history = stored.step, stored.sums, list(stored.history)
        self.earlier_seconds, self.weights_sha256 = stored.seconds, stored.weights_sha256
        self.threads = None  # unknown unless the results have it

    def _previous_summary(self) -> results.Training | None:
        try:  # damage is better found now than after an epoch
            return results.read(self.out).training
        except CheckpointError as error:
            raise TrainingError(f"{error} Remove it to go on.") from error

    def _restore_summary(self, previous: results.Training) -> None:
        """Take over what only the results know of a run: whether it diverged, its threads, and where it ran before."""
        self.diverged_epoch, self.threads = previous.diverged, previous.threads
        last_device = previous.device.rpartition(", then ")[2]
        moved = last_device not in (self.devices, self.device.type)  # older results say only "cpu"
        self.devices = f"{previous.device}, then {self.devices}" if moved else previous.device

    def summary(self) -> results.Training:
        """How the checkpoint came about, so far."""
        return results.Training(
            model=self.entry.name, metric=TARGETS[self.target].metric, recipe_name=self.entry.model.recipe,
            recipe=self.recipe, overrides=self.overrides, epochs_done=len(self.history),
            parameters=parameters(self.network), processes=self.accelerator.num_processes, threads=self.threads,
            device=self.devices, versions=versions(), command=command(), checkpoint_sha256=self.weights_sha256,
            diverged=self.diverged_epoch, history=tuple(self.history),
        )  # fmt: skip


def _seed(*numbers: int) -> int:
    """One 63-bit seed from several numbers, different for different ones."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1
