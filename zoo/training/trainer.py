"""Trains a model by its recipe. A run can be killed at any moment; the same call then continues it to the same result.

No random state is carried from step to step. The order of an epoch's examples depends on (seed, epoch), and all other
random numbers of a step depend on (seed, step, process). The state of a run is therefore its weights, the optimizer's
tensors and a few sums, which zoo.training.state writes atomically to one file.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from ..checkpoints import results, tensors
from ..checkpoints.checkpoint import FILES
from ..data import task_data
from ..errors import CheckpointError, RequestError, TrainingError
from ..networks.base import flush_denormals
from ..networks.builder import build
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..networks.sizes import parameters
from ..networks.stack import NetworkState, SequenceNetwork
from ..registry import Entry
from ..registry.metrics import TARGETS
from ..utils import files
from ..utils.provenance import command, device_name, versions
from . import Progress, Recorder, state
from .best import BestWeights
from .evaluation import BATCH_SIZE, diagnose, measure
from .ridge import RidgeUpdater, make_updater
from .state import State
from .step import make_accelerator, moving_average, schedule, seed_of


def train(
    entry: Entry, out: Path, *, device: str | None = None, overrides: dict[str, Any] | None = None,
    report: Callable[[Progress], None] = lambda progress: None, save_seconds: float = 60.0,
    stop_after: int | None = None, recorders: Mapping[str, Recorder] = {},
) -> results.Training:  # fmt: skip
    """Train `entry` by its recipe in the folder `out`, or continue the run in that folder, and return its history.

    The function writes to `out` the weights, or averages of weights, with the lowest validation loss so far
    (model.safetensors and config.json), results.json, and the state from which a later call continues. The state is saved
    after every epoch and every `save_seconds`.

    overrides: recipe fields to change, such as {"epochs": 3}. A run can be continued only with the settings of its start.
    report: called after every step. stop_after: the epoch to stop after; a later call without `stop_after` continues the
    run. recorders: diagnostics by name, computed on the first validation examples after every epoch, for the history.
    torch's generators are seeded, and accelerate's shared state is set anew, for the whole process.

    Raises RequestError for invalid arguments, for a recipe that does not fit the network or the data, for a run that began with
    other settings, if `out` cannot be a folder, or if a recorder refuses the network; DataError if the data are missing;
    MissingExtraError without accelerate; TrainingError if the state in `out` is damaged, if the device or the processes do not
    suit the recipe, or if the run diverges; StorageError if another process trains in `out`; KeyboardInterrupt, after saving, on
    SIGINT or SIGTERM.
    """
    flush_denormals()  # before anything runs in parallel
    if place := files.obstacle(out):
        raise RequestError(f"{place} is not a folder. Choose another folder for the run.")
    if stop_after is not None and stop_after < 1:
        raise RequestError(f"The epoch to stop after must be at least 1; got {stop_after}.")
    run = TrainingRun(entry, out, overrides or {}, device, recorders)
    out.mkdir(parents=True, exist_ok=True)
    lock = files.exclusive_lock(out, seconds=0) if run.is_main else nullcontext()
    with files.interruptions(most=1) as interrupted, lock:
        run.resume()
        run.go(report, save_seconds, interrupted, stop_after)
        if run.is_main:
            run.best.verify(run.kept)
    run.accelerator.wait_for_everyone()
    if run.accelerator.num_processes > 1:
        run.accelerator.end_training()
    return results.read(out).training or run.summary()


class TrainingRun:
    """One run: its network, data, updater and counters, and how they are saved and restored."""

    def __init__(
        self, entry: Entry, out: Path, overrides: dict[str, Any], device: str | None, recorders: Mapping[str, Recorder]
    ):
        self.entry, self.out, self.overrides, self.recorders = entry, out, overrides, recorders
        self.recipe = recipe = entry.recipe_with(overrides)
        self.accelerator = make_accelerator(recipe, device)
        self.is_main: bool = self.accelerator.is_main_process
        self.device: torch.device = self.accelerator.device
        self.target = entry.task.target
        data = task_data(entry.task, entry.dataset)
        self.train, self.validation = data.split("train"), data.split("validation")
        self.network = build(entry.config, device=self.device, seed=recipe.seed)
        examples, processes = len(self.train), self.accelerator.num_processes
        # a last incomplete batch is left out, but by ridge regression, which sees each example once
        rounded = math.ceil if recipe.optimizer.name == "ridge" else math.floor
        self.steps_per_epoch = rounded(examples / recipe.batch_size)
        self._check_recipe()
        if isinstance(self.network, SequenceNetwork):
            self.network.tbptt_steps, self.network.checkpoint_every = recipe.tbptt_steps, recipe.checkpoint_every
        self.updater = make_updater(self.network, recipe, self.target, self.accelerator)
        self.identity = state.identity(entry.config, recipe, self.train, self.validation, processes)
        self.step = 0
        self.carried: NetworkState | None = None  # where the next batch of a stream begins
        self.sums = torch.zeros(4, dtype=torch.float64)  # loss, metric, targets, gradient norm over this epoch
        self.history: list[results.Epoch] = []
        self.best = BestWeights(out)
        self.diverged: tuple[int | None, int | None] = None, None  # (epoch, step)
        self.threads: int | None = torch.get_num_threads()
        self.devices = device_name(self.device)
        self.earlier_seconds = 0.0  # training time of the processes that worked on the run before this one
        self.began = time.monotonic()
        data.prepare_network(self.network)
        self.average: AveragedModel | None = None
        # a recorder that refuses the network does so now, not after an epoch
        diagnose(self.network, self.validation, self.target, recorders)

    def _check_recipe(self) -> None:
        """Raise RequestError if the recipe does not suit the network or the data, TrainingError for too many processes."""
        name, recipe, processes = self.entry.name, self.recipe, self.accelerator.num_processes
        if (recipe.tbptt_steps or recipe.checkpoint_every) and not isinstance(self.network, SequenceNetwork):
            raise RequestError(f"{name} has no time steps. Leave out tbptt_steps and checkpoint_every.")
        if self.steps_per_epoch == 0:
            raise RequestError(
                f"{name}: a batch of {recipe.batch_size} is larger than the {len(self.train)} examples. Give a smaller --batch-size."
            )
        if self.train.image is None and any(stage.augments for stage, _ in recipe.timeline):
            raise RequestError(
                f"{name} reads no images, but its recipe augments images. Remove `affine`, `elastic` and `shift`."
            )
        if self.train.stream and processes > 1:
            raise TrainingError(f"{name} reads one long text: train it in one process instead of {processes}.")

    # from step to step

    def go(
        self, report: Callable[[Progress], None], save_seconds: float, interrupted: Callable[[], int],
        stop_after: int | None,
    ) -> None:  # fmt: skip
        """Train to the last epoch, to `stop_after` or until interrupted. Save after every epoch and every `save_seconds`."""
        first_step, saved = self.step, time.monotonic()
        last_step = min(stop_after or self.recipe.epochs, self.recipe.epochs) * self.steps_per_epoch
        while self.step < last_step and not results.ended_early(self.history, self.recipe):
            epoch, steps_done = divmod(self.step, self.steps_per_epoch)
            generator = torch.Generator().manual_seed(seed_of(self.recipe.seed, epoch))
            order = self.train.order(self.recipe.batch_size, generator)
            if self.train.stream and steps_done == 0:
                self.carried = cast(RecurrentNetwork, self.network).initial_state(self.recipe.batch_size)
            for indices in order.split(self.recipe.batch_size)[steps_done : self.steps_per_epoch]:
                stop = interrupted() > 0
                if self.accelerator.num_processes > 1:  # if one process has to stop, all stop after the same step
                    stop = bool(self.accelerator.reduce(torch.tensor(float(stop), device=self.device), "sum") > 0)
                self._update(indices, epoch)
                rate = (self.step - first_step) / (time.monotonic() - self.began)
                loss, metric, _ = self._means()
                finished = self._end_epoch(epoch) if self.step % self.steps_per_epoch == 0 else None
                if self.is_main:
                    report(Progress(epoch + 1, self.recipe.epochs, self.step, last_step, loss, metric, rate, finished))
                if finished is not None or stop or time.monotonic() - saved > save_seconds:
                    self.save()
                    saved = time.monotonic()
                if stop and self.step < last_step and not results.ended_early(self.history, self.recipe):
                    raise KeyboardInterrupt

    def _update(self, indices: Tensor, epoch: int) -> None:
        """Make one optimizer step on this process's share of the training examples `indices`, the batch of all processes."""
        stage, schedule_epochs = self.recipe.stage(epoch)
        stage_step = self.step - stage.start_epoch * self.steps_per_epoch
        if stage_step == 0:
            self.updater.reset_optimizer()
            self.average = moving_average(self.network, stage.weight_average)
        self.updater.lr = stage.lr * schedule(stage.schedule, stage_step, schedule_epochs * self.steps_per_epoch)
        torch.manual_seed(seed_of(self.recipe.seed, self.step, self.accelerator.process_index))
        share = indices.chunk(self.accelerator.num_processes)[self.accelerator.process_index]
        update = self.updater.update(*self.train.batch(share, self.device, stage), state=self.carried)
        self.carried = update.state
        if self.average is not None:
            self.average.update_parameters(self.network)
        measured = torch.stack([update.loss, update.metric, update.targets, update.gradient_norm]).cpu().double()
        self.step += 1
        scaled = self.recipe.precision == "fp16"  # its scaler skips the steps whose gradients are infinite
        if not measured[: 3 if scaled else 4].isfinite().all():
            raise self._diverged("the loss or its gradient")
        self.sums += measured.nan_to_num(posinf=0.0)
        self.diverged = None, None

    @property
    def kept(self) -> Network:
        """The network that is validated and written to the folder: the one that is trained, or the average of its weights."""
        return self.network if self.average is None else cast(Network, self.average.module)

    def _diverged(self, value: str) -> TrainingError:
        """Record that this step diverged, and return the error to raise. value: the name of the value that is not finite."""
        self.diverged = (self.step - 1) // self.steps_per_epoch + 1, self.step
        self._write_results()
        best = ", and so are the best weights so far" if self.history else ""
        return TrainingError(
            f"{self.entry.name} diverged in {self.summary().divergence}: {value} is infinite or NaN. "
            f"The last good state is in {self.out}{best}. Try a lower learning rate or gradient clipping (max_grad_norm)."
            f"{self.train.doubt or self.validation.doubt}"
        )

    def _means(self) -> tuple[float, float, float]:
        """Return (loss, metric, gradient norm), means over the epoch so far."""
        loss, metric, targets, norms = self.sums.tolist()
        targets = max(targets, 1.0)  # the first batches of an epoch may have none
        steps, metric = (self.step - 1) % self.steps_per_epoch + 1, TARGETS[self.target].of_mean(metric / targets)
        return loss / targets, metric, norms / steps

    def _end_epoch(self, epoch: int) -> results.Epoch:
        """Validate, write the weights if they are the best yet, and add a row to the history; return that row."""
        loss, metric, norm = self._means()
        if isinstance(self.updater, RidgeUpdater):  # the means so far are those of the head before it was solved
            loss, metric = self.updater.solve(self.train)
        measured = measure(self.kept, self.validation, self.target, BATCH_SIZE)
        if not math.isfinite(measured.loss):
            raise self._diverged("the validation loss")
        row = results.Epoch(
            epoch=epoch + 1, lr=self.updater.lr, train_loss=loss, train_metric=metric,
            validation_loss=measured.loss, validation_metric=measured.metric, gradient_norm=norm,
            seconds=round(self.seconds, 1), diagnostics=diagnose(self.kept, self.validation, self.target, self.recorders),
        )  # fmt: skip
        best = min((past.validation_loss for past in self.history), default=math.inf)
        self.history.append(row)
        self.sums.zero_()
        if row.validation_loss < best and self.is_main:
            self.best.write(self.kept)
        return row

    @property
    def seconds(self) -> float:
        """Training time so far in seconds, including that of earlier processes."""
        return self.earlier_seconds + time.monotonic() - self.began

    # saved and restored

    def save(self) -> None:
        """Write the results, then the state. A run that is killed in between continues from the previous state."""
        self._write_results()
        if self.is_main:
            scaler = self.accelerator.scaler
            State(
                self.identity, self.step, self.seconds, self.sums, self.history, self.best.sha256,
                scaler=None if scaler is None else scaler.state_dict(), network=self.network.state_dict(),
                optimizer=self.updater.optimizer.state_dict()["state"],
                average={} if self.average is None else self.average.state_dict(),
                carried=[part for layer in self.carried or () for part in layer],
            ).write(self.out / state.FILE)  # fmt: skip
            self.best.settle()

    def _write_results(self) -> None:
        """Write the run's history to results.json, and keep the evaluations there of the weights that are in the folder."""
        if self.is_main:
            measured, _ = results.read_current(self.out)
            results.write(self.out, measured.model_copy(update={"training": self.summary()}))

    def resume(self) -> None:
        """Continue the run in the folder, or save the first state of a new one. Raises TrainingError if it can do neither."""
        if self.is_main:
            for name in (*FILES, results.FILE, state.FILE):
                files.remove_partials(self.out / name)
        try:
            previous = results.read(self.out).training  # damaged results are better found now than after an epoch
        except CheckpointError as error:
            raise TrainingError(f"{error} Remove the file to continue the run.") from error
        begun = previous is not None and bool(previous.history)
        self._read_state(begun)
        if self.step > 0 and previous is not None:
            self._continue_history(previous)
        elif not begun or (self.out / state.FILE).exists():  # results of a first epoch whose state was not written
            self.save()
        else:
            raise TrainingError(f"{self.out} has the results of a run, but no state of it. Choose another --out.")
        self._require_one_state()

    def _read_state(self, begun: bool) -> None:
        """Restore the state in the folder if its run has made a step. begun: whether results.json has an epoch of the run.

        Raises RequestError for a state of other settings, and TrainingError for weights without a state.
        """
        path = self.out / state.FILE
        if path.exists():
            stored = State.read(path)
            if begun or stored.step > 0:
                state.require_same(self.out, self.identity, stored.identity)
            if stored.step > 0:
                self._restore(stored)
        elif found := [name for name in FILES if (self.out / name).exists()]:
            raise TrainingError(
                f"{self.out} has {found[0]}, but no state to continue from. Choose another --out, or remove the folder."
            )

    def _continue_history(self, previous: results.Training) -> None:
        """Take from `previous`, the results so far, what the state lacks: divergence, threads, and the devices used so far."""
        self.diverged, self.threads = (previous.diverged, previous.diverged_step), previous.threads
        last_device = previous.device.rpartition(", then ")[2]
        same_device = last_device in (self.devices, self.device.type)  # older results say only "cpu"
        self.devices = previous.device if same_device else f"{previous.device}, then {self.devices}"

    def _require_one_state(self) -> None:
        """Raise TrainingError unless every process has read the same state."""
        self.accelerator.wait_for_everyone()
        step = self.step if (self.out / state.FILE).exists() else -1
        if self.accelerator.gather(torch.tensor([step], device=self.device)).unique().numel() > 1:
            raise TrainingError(f"Processes find different states in {self.out}. Put the folder on a shared disk.")

    def _restore(self, stored: State) -> None:
        """Continue from a stored state. Raises TrainingError if weights are missing."""
        if tensors.differences(self.network.state_dict(), stored.network):
            raise state.not_a_state(self.out / state.FILE)
        if stored.history and not (self.out / tensors.FILE).exists():
            raise TrainingError(
                f"{self.out} lacks {tensors.FILE}, the best weights of its run. Remove the folder to begin the run again."
            )
        self.network.load_state_dict(stored.network)
        stage, _ = self.recipe.stage((stored.step - 1) // self.steps_per_epoch)
        self.average = moving_average(self.network, stage.weight_average)
        if self.average is not None:
            self.average.load_state_dict(stored.average)
        optimizer = self.updater.optimizer
        optimizer.load_state_dict({**optimizer.state_dict(), "state": stored.optimizer})
        if stored.scaler is not None:
            self.accelerator.scaler.load_state_dict(stored.scaler)
        if stored.carried:
            parts = iter(stored.carried)
            template = cast(RecurrentNetwork, self.network).initial_state(self.recipe.batch_size)
            self.carried = tuple(tuple(next(parts).to(self.device) for _ in layer) for layer in template)
        self.step, self.sums, self.history = stored.step, stored.sums, list(stored.history)
        self.earlier_seconds, self.best.sha256 = stored.seconds, stored.weights_sha256
        if self.is_main:
            self.best.go_back()
        self.threads = None  # the state does not have it; the results may

    def summary(self) -> results.Training:
        """Return the run so far, as results.json stores it."""
        return results.Training(
            model=self.entry.name, metric=TARGETS[self.target].metric, recipe_name=self.entry.model.recipe,
            recipe=self.recipe, overrides=self.overrides, epochs_done=len(self.history),
            parameters=parameters(self.network), processes=self.accelerator.num_processes, threads=self.threads,
            device=self.devices, versions=versions(), command=command(), checkpoint_sha256=self.best.sha256,
            diverged=self.diverged[0], diverged_step=self.diverged[1], history=tuple(self.history),
        )  # fmt: skip
