"""One training step: a recipe's optimizer and learning rate, the processes of a run, and `Updater`, which makes the step.

The trainer and the diagnostics that train networks use `Updater`. They choose the batches and set the learning rate.
"""

import hashlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ..cells.base import Cell
from ..errors import MissingExtraError, TrainingError
from ..networks.base import resolve_device
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..networks.stack import NetworkState
from ..registry.metrics import Target
from ..registry.schema import Optimizer, Recipe, Schedule
from .evaluation import score
from .regularisers import gradient_flow_penalty


def moving_average(network: Network, decay: float | None) -> AveragedModel | None:
    """Return a copy of a network whose `update_parameters(network)` moves weights and buffers to decay w + (1 - decay) w'.

    w is the average and w' the network's value; the first call copies w'. None for no average.
    """
    if decay is None:
        return None
    return AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)


def make_optimizer(spec: Optimizer, network: Network) -> torch.optim.Optimizer:
    """Return a recipe's optimizer for all trainable parameters, with the learning rate `spec.lr`. Raises TrainingError for ridge."""
    if spec.name == "ridge":
        raise TrainingError("Ridge regression takes no gradient steps. Choose a recipe with another optimizer.")
    weights = [p for p in network.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": weights}]
    if spec.recurrence_factor is not None:
        cells = (module for module in network.modules() if isinstance(module, Cell))
        ids = {id(p) for cell in cells for p in cell.parameters(recurse=False)}
        recurrence = {"factor": spec.recurrence_factor, "lr": spec.lr * spec.recurrence_factor, "weight_decay": 0.0}
        groups = [
            {"params": [p for p in weights if id(p) not in ids]},
            {"params": [p for p in weights if id(p) in ids], **recurrence},
        ]
    match spec.name:
        case "adam" | "adamw":
            adam = torch.optim.Adam if spec.name == "adam" else torch.optim.AdamW
            b1, b2 = spec.betas
            return adam(groups, spec.lr, (b1, b2), weight_decay=spec.weight_decay)
        case "rmsprop":
            return torch.optim.RMSprop(
                groups, spec.lr, spec.alpha, momentum=spec.momentum, weight_decay=spec.weight_decay
            )
    return torch.optim.SGD(groups, spec.lr, spec.momentum, weight_decay=spec.weight_decay)


def schedule(spec: Schedule, step: int, total: int) -> float:
    """Return the factor on the learning rate at step `step` of `total`, counted from 0: a linear warm-up, then a decay.

    One-cycle (Smith & Topin 2018) rises and falls along a cosine; with a warm-up of 0, it rises for 30 % of the steps.
    """
    one_cycle = spec.name == "one-cycle"
    warmup = (spec.warmup or math.ceil(0.3 * total)) if one_cycle else spec.warmup
    if step < warmup:
        rise = (step + 1) / warmup
        return (1 - math.cos(math.pi * rise)) / 2 if one_cycle else rise
    if spec.name == "constant":
        return 1.0
    past = min(1.0, (step - warmup) / max(1, total - warmup))
    fall = (1 - past) ** spec.power if spec.name == "polynomial" else (1 + math.cos(math.pi * past)) / 2
    return spec.final_factor + (1 - spec.final_factor) * fall


def make_accelerator(recipe: Recipe, device: str | None) -> Any:
    """Return an accelerate.Accelerator with the recipe's precision on `device` (default: the best available).

    Raises MissingExtraError without accelerate; TrainingError if the device lacks the precision, or if a batch cannot be
    divided equally among the processes.
    """
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise MissingExtraError("accelerate", "train") from error
    chosen = resolve_device(device)
    if not torch.distributed.is_initialized():
        # an earlier run in this process may have had another precision or device
        AcceleratorState._reset_state(reset_partial_state=True)
    if chosen.type != "cpu" and chosen.index is not None:
        torch.accelerator.set_device_index(chosen.index)
    accelerator = Accelerator(mixed_precision=recipe.precision, cpu=chosen.type == "cpu")
    precision, batch, processes = recipe.precision, recipe.batch_size, accelerator.num_processes
    if precision != "no" and not accelerator.native_amp:  # accelerate would train in full precision
        raise TrainingError(f"Precision {precision!r} is not available on {chosen}. Choose another device or recipe.")
    if batch % processes:
        raise TrainingError(
            f"A batch of {batch} cannot be divided equally among {processes} processes. Change --batch-size or the number of "
            "processes."
        )
    return accelerator


def seed_of(*numbers: int) -> int:
    """Return a 63-bit seed for random generators that depends on all of `numbers`."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:8], "big") >> 1


class OneProcess:
    """The methods of accelerate.Accelerator that a training step calls, for one process in full precision."""

    num_processes = 1
    scaler = None

    def prepare(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor

    def autocast(self) -> AbstractContextManager[None]:
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, max_norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(parameters, max_norm)


@dataclass(frozen=True)
class Update:
    """What an optimizer step measured before it changed the weights: scalars, over the batches of all processes."""

    loss: Tensor
    """Sum of the loss over the targets. The step minimises the mean, `loss / targets`."""
    metric: Tensor
    """Sum of the metric over the targets; see zoo.registry.metrics."""
    targets: Tensor
    """Number of targets."""
    state: NetworkState | None
    """The network's state after the batch, for the next update of a stream; None if the examples are no stream."""
    gradient_norm: Tensor
    """Global norm of the gradient before clipping. With fp16 it may be infinite; such a step is skipped."""


class Updater:
    """A network and its optimizer; `update` makes one optimizer step on a batch.

        updater = Updater(network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm)
        for x, y, lengths in batches:
            updater.update(x, y, lengths)

    max_grad_norm: threshold at which the global gradient norm is clipped.
    gradient_flow_penalty: weight of the penalty of zoo.training.regularisers; None leaves it out.
    accelerator: an accelerate.Accelerator, for mixed precision or several processes.
    """

    def __init__(
        self, network: Network, optimizer: Optimizer, target: Target, *, max_grad_norm: float | None = None,
        gradient_flow_penalty: float | None = None, accelerator: Any = None,
    ):  # fmt: skip
        self.network, self.target = network, target
        self.max_grad_norm, self.gradient_flow_penalty = max_grad_norm, gradient_flow_penalty
        self.accelerator: Any = accelerator or OneProcess()
        self.model, self.optimizer = self.accelerator.prepare(network, make_optimizer(optimizer, network))
        scaler = self.accelerator.scaler
        self._fresh_scaler = None if scaler is None else scaler.state_dict()

    def reset_optimizer(self) -> None:
        """Reset the optimizer's moments, and fp16's gradient scaler, to their values at the start of a run."""
        self.optimizer.state.clear()
        if self._fresh_scaler is not None:
            self.accelerator.scaler.load_state_dict(self._fresh_scaler)

    @property
    def lr(self) -> float:
        """The learning rate of the next update. The first value is that of the optimizer's settings."""
        return self.optimizer.param_groups[0]["lr"]

    @lr.setter
    def lr(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("factor", 1.0)

    def update(
        self,
        x: Tensor,  # (batch, time, *input): this process's share of the batch
        y: Tensor,  # classes or values, as in evaluation.score
        lengths: Tensor | None = None,  # (batch,)
        *,
        state: NetworkState | None = None,
        before_clipping: Callable[[], None] | None = None,
    ) -> Update:
        """Make one optimizer step, in train mode, on the mean loss of a batch, and return what the step measured.

        state: Update.state of the previous update, if x continues its sequences (Split.stream); gradients do not flow back
        beyond it. before_clipping: called after the backward pass, before the gradients are clipped.
        """
        self.model.train()
        final = None
        if state is None:
            outputs = self.model(x, lengths)
        else:
            with self.accelerator.autocast():
                outputs, final = cast(RecurrentNetwork, self.network).resume(x, state, lengths=lengths)
            final = tuple(tuple(part.detach() for part in layer) for layer in final)
        loss, metric, targets = score(self.target, outputs, y)
        sums = self.accelerator.reduce(torch.stack([loss.detach(), metric, targets]), "sum")
        self.optimizer.zero_grad()
        loss = loss * self.accelerator.num_processes / sums[2].clamp_min(1)  # the processes' gradients are averaged
        if self.gradient_flow_penalty is not None:
            penalty = gradient_flow_penalty(self.network, x, y, lengths, self.target)
            loss = loss + self.gradient_flow_penalty * penalty
        self.accelerator.backward(loss)
        if before_clipping is not None:
            before_clipping()
        bound = math.inf if self.max_grad_norm is None else self.max_grad_norm
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), bound)
        self.optimizer.step()
        return Update(sums[0], sums[1], sums[2], final, norm.detach())
