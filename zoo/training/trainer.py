"""Recipe to checkpoint: training that can be killed at any moment and goes on as if it had not been.

Nothing random is carried from step to step: the order of an epoch comes from (seed, epoch), everything else that is
drawn in a step from (seed, step, process). So the state is the weights, the optimizer and a few sums, written atomically
to one file, and a run that is interrupted and continued computes what an uninterrupted one does.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from ..checkpoints import results
from ..data import task_data
from ..data.base import Split
from ..diagnostics import Recorder, recorder
from ..errors import CheckpointError, MissingExtraError, RequestError, TrainingError
from ..networks import loading
from ..networks.builder import build, parameters, resolve_device
from ..registry import Entry
from ..registry.metrics import TARGETS
from ..registry.schema import Config, Recipe
from ..utils import files
from ..utils.provenance import command, device_name, versions
from ..utils.signals import interruptions
from .evaluation import BATCH, measure, score
from .optimizers import make_optimizer, schedule
from .regularisers import gradient_flow_penalty

STATE = "training.safetensors"
SAVE_SECONDS = 60.0
DIAGNOSED = 64
"""Validation examples that diagnostics are recorded of."""


@dataclass(frozen=True)
class Progress:
    """Where a run is, reported after every step; loss and metric (see zoo.registry.metrics) are means over the epoch so far."""

    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    metric: float
    rate: float
    """Steps per second of this process's run."""
    finished: results.Epoch | None = None
    """Set when the step ended an epoch."""

    @property
    def remaining(self) -> float:
        """Seconds left at the present rate."""
        return (self.steps - self.step) / self.rate if self.rate else math.inf


def train(
    entry: Entry, out: Path, *, device: str | None = None, overrides: dict[str, Any] | None = None,
    report: Callable[[Progress], None] = lambda progress: None, save_seconds: float = SAVE_SECONDS,
    stop_after: int | None = None, diagnose: Sequence[str] = (),
) -> results.Training:  # fmt: skip
    """Train `entry` by its recipe into `out`, continuing what is there, and return what it wrote of that.

    `out` gets model.safetensors and config.json (the weights with the lowest validation loss so far), results.json, and
    the state to continue from. overrides: recipe fields to change, such as {"epochs": 3}; a run cannot be continued
    with other settings than it began with. stop_after: the epoch to stop after for now; a call without it goes on from
    there. diagnose: names of zoo.diagnostics that are recorded into the history after every epoch, of the first
    validation examples. Raises TrainingError, and KeyboardInterrupt after saving on SIGINT.
    """
    torch.set_flush_denormal(True)  # see builder.build; before anything that is computed in parallel
    if any(path.exists() and not path.is_dir() for path in (out, *out.parents)):
        raise RequestError(f"{out} is a file, or in one. Choose a folder for the run.")
    if stop_after is not None and stop_after < 1:
        raise RequestError("A run can stop after an epoch from 1.")
    recipe = entry.recipe_with(overrides or {})
    recorders = {name: recorder(name) for name in diagnose}
    accelerator = _accelerator(recipe, device)
    if recipe.batch_size % accelerator.num_processes:
        raise TrainingError(
            f"A batch of {recipe.batch_size} cannot be shared equally by {accelerator.num_processes} processes."
        )
    data = task_data(entry.task, entry.dataset)
    run = Run(entry, recipe, overrides or {}, out, accelerator, data.split("train"), data.split("validation"))
    data.attach_tokenizer(run.network)
    run.diagnose = recorders
    run.diagnosed()  # what cannot be recorded is better refused now than after an epoch
    out.mkdir(parents=True, exist_ok=True)
    claimed = files.exclusive_lock(out, wait=False) if accelerator.is_main_process else nullcontext()
    with interruptions(most=1) as interrupted, claimed:
        run.resume()
        run.go(report, save_seconds, interrupted, stop_after)
    accelerator.wait_for_everyone()
    if accelerator.num_processes > 1:
        accelerator.end_training()
    return results.read(out).training or run.training()


class Run:
    """One training run: what it is made of, what changes from step to step, and how that is saved."""

    def __init__(
        self, entry: Entry, recipe: Recipe, overrides: dict[str, Any], out: Path, accelerator: Any, train: Split,
        validation: Split,
    ):  # fmt: skip
        self.entry, self.recipe, self.overrides, self.out = entry, recipe, overrides, out
        self.accelerator, self.train, self.validation = accelerator, train, validation
        self.device: torch.device = accelerator.device
        self.network = build(entry.config, device=self.device, seed=recipe.seed)
        self.network.tbptt_steps, self.network.checkpoint_every = recipe.tbptt_steps, recipe.checkpoint_every
        optimizer = make_optimizer(recipe.optimizer, self.network)
        self.model, self.optimizer = accelerator.prepare(self.network, optimizer)
        self.per_epoch = len(train) // recipe.batch_size
        if self.per_epoch == 0:
            raise TrainingError(f"A batch of {recipe.batch_size} is larger than the {len(train)} training examples.")
        self.stage = recipe.stage(0)
        if train.image is None and any(stage.augments for stage, _ in recipe.timeline):
            raise TrainingError(f"The recipe of {entry.name} augments images, and its training examples are none.")
        self.step = 0
        self.scaling = {} if accelerator.scaler is None else accelerator.scaler.state_dict()
        self.sums = torch.zeros(4, dtype=torch.float64)  # of loss, metric, targets, gradient norm over this epoch
        self.history: list[results.Epoch] = []
        self.best_sha256: str | None = None  # of the weights kept
        self.diverged: int | None = None
        self.threads: int | None = torch.get_num_threads()
        self.devices = device_name(self.device)
        self.diagnose: dict[str, Recorder] = {}
        self.seconds = 0.0  # of training before this process took over
        self.began = time.monotonic()

    def go(
        self, report: Callable[[Progress], None], save_seconds: float, interrupted: Callable[[], int],
        stop_after: int | None,
    ) -> None:  # fmt: skip
        """Train to the end, to that of an epoch, or until interrupted, saving after every epoch and `save_seconds`."""
        first, saved = self.step, time.monotonic()
        order: Tensor | None = None
        end = min(stop_after or self.recipe.epochs, self.recipe.epochs) * self.per_epoch
        while self.step < end and not results.converged(self.history, self.recipe):
            epoch, index = divmod(self.step, self.per_epoch)
            if order is None or index == 0:
                order, self.stage = self._order(epoch), self.recipe.stage(epoch)
            stop = self._update(
                order[index * self.recipe.batch_size : (index + 1) * self.recipe.batch_size], interrupted() > 0
            )
            self.step, self.diverged = self.step + 1, None
            rate = (self.step - first) / (time.monotonic() - self.began)
            loss, metric, _ = self._means()
            finished = self._end_epoch(epoch) if index + 1 == self.per_epoch else None
            if self.accelerator.is_main_process:
                report(Progress(epoch + 1, self.recipe.epochs, self.step, end, loss, metric, rate, finished))
            if finished is not None or stop or time.monotonic() - saved > save_seconds:
                self.save()
                saved = time.monotonic()
            if stop:
                raise KeyboardInterrupt

    def _order(self, epoch: int) -> Tensor:
        """The examples of an epoch in the order they are seen; a last incomplete batch is left out."""
        generator = torch.Generator().manual_seed(_seed(self.recipe.seed, epoch))
        return torch.randperm(len(self.train), generator=generator)

    def _update(self, batch: Tensor, stop: bool) -> bool:
        """One optimizer step on the examples `batch`, of which this process takes its share.

        Returns whether any process wants to stop, so that all stop after the same step.
        """
        accelerator = self.accelerator
        stage, length = self.stage
        past = self.step - stage.start_epoch * self.per_epoch
        if past == 0:
            self._fresh_optimizer()
        torch.manual_seed(_seed(self.recipe.seed, self.step, accelerator.process_index))
        share = batch.chunk(accelerator.num_processes)[accelerator.process_index]
        x, y, lengths = self.train.batch(share, self.device, stage)
        for group in self.optimizer.param_groups:
            group["lr"] = stage.lr * schedule(stage.schedule, past, length * self.per_epoch)
        self.model.train()
        loss, metric, targets = score(self.entry.task.target, self.model(x, lengths), y)
        sums = accelerator.reduce(torch.stack([loss.detach(), metric, targets, targets.new_tensor(stop)]), "sum")
        self.optimizer.zero_grad()
        loss = loss * accelerator.num_processes / sums[2]  # the mean over all processes' gradients is taken
        if self.recipe.gradient_flow_penalty is not None:
            loss = loss + self.recipe.gradient_flow_penalty * gradient_flow_penalty(
                self.network, x, y, lengths, self.entry.task.target
            )
        accelerator.backward(loss)
        bound = math.inf if self.recipe.max_grad_norm is None else self.recipe.max_grad_norm
        norm = accelerator.clip_grad_norm_(self.model.parameters(), bound)
        measured = torch.cat([sums[:3], norm.detach().reshape(1)]).cpu().double()
        scaled = self.recipe.precision == "fp16"  # whose scaler meets infinite gradients now and then, and skips them
        if not measured[: 3 if scaled else 4].isfinite().all():
            raise self._diverged("the loss or its gradient", self.step + 1)
        self.optimizer.step()
        self.sums += measured.nan_to_num(posinf=0.0)
        return bool(sums[3] > 0)

    def _fresh_optimizer(self) -> None:
        """As at the start of a run, whatever was before."""
        self.optimizer.state.clear()
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(self.scaling)

    def _diverged(self, what: str, step: int) -> TrainingError:
        best = ", and so are the best weights so far" if self.history else ""
        self.diverged = (step - 1) // self.per_epoch + 1
        if self.accelerator.is_main_process:
            self._record()
        where = f"{self.entry.name} diverged in step {step} (epoch {self.diverged})"
        return TrainingError(f"{where}: {what} is not finite. The last good state is in {self.out}{best}.")

    def _means(self) -> tuple[float, float, float]:
        """Mean loss, metric and gradient norm over the epoch so far."""
        loss, metric, targets, norms = self.sums.tolist()
        return loss / targets, metric / targets, norms / ((self.step - 1) % self.per_epoch + 1)

    def _end_epoch(self, epoch: int) -> results.Epoch:
        """Validate, keep the weights if they are the best yet, and add a row to the history."""
        loss, metric, norm = self._means()
        measured = measure(self.network, self.validation, self.entry.task.target, BATCH)
        if not math.isfinite(measured.loss):
            raise self._diverged("the validation loss", self.step)
        row = results.Epoch(
            epoch=epoch + 1, lr=self.optimizer.param_groups[0]["lr"], train_loss=loss,
            train_metric=metric, validation_loss=measured.loss, validation_metric=measured.metric,
            gradient_norm=norm, seconds=round(self.elapsed, 1), diagnostics=self.diagnosed(),
        )  # fmt: skip
        best = min((past.validation_loss for past in self.history), default=math.inf)
        self.history.append(row)
        self.sums.zero_()
        # weights first, state second: killed in between, the epoch's end is computed again to the same bytes
        if row.validation_loss < best and self.accelerator.is_main_process:
            loading.save(self.network, self.out)
            self.best_sha256 = files.sha256(self.out / loading.WEIGHTS)
        return row

    def diagnosed(self) -> dict[str, tuple[float | None, ...]]:
        """What each recorder says of the network as it is."""
        if not self.diagnose:
            return {}
        first = torch.arange(min(DIAGNOSED, len(self.validation)))
        given = (self.network, *self.validation.batch(first, self.device), self.entry.task.target)
        return {name: tuple(record(*given)) for name, record in self.diagnose.items()}

    @property
    def elapsed(self) -> float:
        return self.seconds + time.monotonic() - self.began

    @property
    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to be continued."""
        return {
            "config": self.entry.config.model_dump(mode="json"),
            "recipe": self.recipe.settings,
            "data": {**self.train.digests, "examples": len(self.train)},
            "number of processes": {"processes": self.accelerator.num_processes},
        }

    def _differs(self, stored: dict[str, Any]) -> str | None:
        """The part of the identity in which a stored one differs; what it leaves out had the default."""
        readers: dict[str, Callable[[Any], Any]] = {"config": Config.model_validate, "recipe": Recipe.model_validate}
        count = "number of processes"  # which states did not always have
        stored = {count: self._identity[count], **stored}
        for part, ours in self._identity.items():
            read = readers.get(part, dict)
            try:
                same = read(stored[part]) == read(ours)
            except (KeyError, ValidationError):  # another version wrote it
                same = False
            if not same:
                return part
        return None

    def save(self) -> None:
        """Write the results and then the state, which is what makes them count; only the first process writes."""
        if not self.accelerator.is_main_process:
            return
        scaler = self.accelerator.scaler
        facts = {
            "identity": self._identity, "step": self.step, "seconds": self.elapsed,
            "history": [row.model_dump() for row in self.history], "scaler": scaler and scaler.state_dict(),
            "weights": self.best_sha256,
        }  # fmt: skip
        tensors = {f"network.{name}": t.detach().cpu().contiguous() for name, t in self.network.state_dict().items()}
        for index, slots in self.optimizer.state_dict()["state"].items():
            for name, value in slots.items():
                tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
        tensors["sums"] = self.sums
        tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        self._record()
        loading.write_tensors(self.out / STATE, tensors)

    def _record(self) -> None:
        """Write the results, beside what was measured of the weights that are there."""
        kept, _ = results.beside(self.out)
        results.write(self.out, kept.model_copy(update={"training": self.training()}))

    def resume(self) -> None:
        """Take up the state in `out`, if there is one. Raises TrainingError if it belongs to another run."""
        path = self.out / STATE
        for name in (*loading.FILES, results.FILE, STATE) if self.accelerator.is_main_process else ():
            files.remove_partials(self.out / name)
        begun = False
        if path.exists():
            try:
                begun = self._take_up(loading.read_tensors(path))
            except CheckpointError as error:
                raise TrainingError(f"{error} Remove {self.out} to begin the run again.") from error
            except (KeyError, ValueError, TypeError) as error:  # another program or version wrote it
                raise TrainingError(
                    f"{path} is not the state of a run. Remove {self.out} to begin it again."
                ) from error
            if self.history and not (self.out / loading.WEIGHTS).exists():
                raise TrainingError(f"{self.out} has lost its best weights. Remove it to begin the run again.")
        elif (self.out / loading.WEIGHTS).exists():
            raise TrainingError(
                f"{self.out} has weights but no state that their training could go on from. Choose another --out, or "
                "remove that folder."
            )
        try:  # better found damaged now than when it is to be kept up
            known = results.read(self.out).training
        except CheckpointError as error:
            raise TrainingError(f"{error} Remove it to go on.") from error
        if known and begun:
            self.diverged, self.threads = known.diverged, known.threads
            moved = known.device.rpartition(", then ")[2] not in (self.devices, self.device.type)  # older: "cpu"
            self.devices = f"{known.device}, then {self.devices}" if moved else known.device
        elif self.step:
            self.threads = None  # nobody knows
        if not (known and begun):  # from now on there is what to go on from, and what to read
            self.save()
        self.accelerator.wait_for_everyone()
        seen = self.accelerator.gather(torch.tensor([self.step if path.exists() else -1], device=self.device))
        if seen.unique().numel() > 1:
            raise TrainingError(f"Not every process finds the state in {self.out}. Put it on a disk that all share.")

    def _take_up(self, tensors: dict[str, Tensor]) -> bool:
        """Go on from a stored state; False for that of a run that made no step, of which nothing is lost."""
        facts = json.loads(bytes(tensors.pop("facts").tolist()))
        if facts["step"] == 0:
            return False
        if part := self._differs(facts["identity"]):
            raise TrainingError(
                f"{self.out} holds a run with another {part}. Choose another --out, or remove that folder."
            )
        self.step, self.seconds, self.sums = facts["step"], facts["seconds"], tensors.pop("sums")
        self.history, self.best_sha256 = [results.Epoch(**row) for row in facts["history"]], facts.get("weights")
        stored = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
        if problems := loading.differences(self.network.state_dict(), stored):
            raise ValueError(problems)
        self.network.load_state_dict(stored)
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            kind, _, rest = key.partition(".")
            if kind == "optimizer":
                index, _, name = rest.partition(".")
                slots.setdefault(int(index), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": slots})
        if facts["scaler"] is not None:
            self.accelerator.scaler.load_state_dict(facts["scaler"])
        return True

    def training(self) -> results.Training:
        """How the checkpoint came about, so far."""
        return results.Training(
            model=self.entry.name, metric=TARGETS[self.entry.task.target].metric,
            recipe_name=self.entry.model.recipe, recipe=self.recipe, overrides=self.overrides,
            epochs_done=len(self.history), parameters=parameters(self.network),
            processes=self.accelerator.num_processes, threads=self.threads, device=self.devices,
            versions=versions(), command=command(), checkpoint_sha256=self.best_sha256,
            diverged=self.diverged, history=tuple(self.history),
        )  # fmt: skip


def _seed(*numbers: int) -> int:
    """One 63-bit seed from several numbers, different for different ones."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1


def _accelerator(recipe: Recipe, device: str | None) -> Any:
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise MissingExtraError("accelerate", "train") from error
    chosen = resolve_device(device)
    if (
        not torch.distributed.is_initialized()
    ):  # an earlier run of this process may have had another precision or device
        AcceleratorState._reset_state(reset_partial_state=True)
    if chosen.index is not None:
        torch.accelerator.set_device_index(chosen.index)
    accelerator = Accelerator(mixed_precision=recipe.precision, cpu=chosen.type == "cpu")
    if recipe.precision != "no" and not accelerator.native_amp:  # it would go on in full precision
        raise TrainingError(
            f"Precision {recipe.precision!r} is not available on {chosen}. Choose another device or recipe."
        )
    return accelerator
