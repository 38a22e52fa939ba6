"""The one training step of the project: `Updater.update` takes a batch to new weights.

The trainer and the diagnostics that train share it. The order of the batches and the learning rate are theirs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..networks.network import Network
from ..registry.metrics import Target
from ..registry.schema import Optimizer
from .evaluation import score
from .optimizers import make_optimizer
from .processes import OneProcess
from .regularisers import gradient_flow_penalty


@dataclass(frozen=True)
class Update:
    """Metrics of one optimizer step, before the weights changed: scalars over the batch of all processes."""

    loss: Tensor
    """Sum over the targets; the mean, `loss / targets`, is what is minimised."""
    metric: Tensor
    """Sum over the targets, see zoo.registry.metrics."""
    targets: Tensor
    """Number of targets."""
    gradient_norm: Tensor
    """Global norm before clipping; with fp16 it may be infinite, and the update was skipped."""


class Updater:
    """A network and its optimizer; `update` makes one step on a batch.

        updater = Updater(network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm)
        for x, y, lengths in batches:
            updater.update(x, y, lengths)

    max_grad_norm: bound on the global gradient norm. gradient_flow_penalty: weight of the regulariser of that name.
    accelerator: an accelerate.Accelerator, for mixed precision and several processes.
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
        """Forget all moments, and the scale of fp16, as at the start of a run."""
        self.optimizer.state.clear()
        if self._fresh_scaler is not None:
            self.accelerator.scaler.load_state_dict(self._fresh_scaler)

    @property
    def lr(self) -> float:
        """The learning rate of the next update; at first the optimizer's own."""
        return self.optimizer.param_groups[0]["lr"]

    @lr.setter
    def lr(self, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def update(
        self,
        x: Tensor,  # (batch, time, *input): this process's share of the batch
        y: Tensor,  # classes or values, as in evaluation.score
        lengths: Tensor | None = None,  # (batch,)
        before_clipping: Callable[[], None] | None = None,
    ) -> Update:
        """Make one optimizer step, in train mode, on the mean loss of a batch.

        before_clipping: called when the parameters' gradients are complete.
        """
        self.model.train()
        loss, metric, targets = score(self.target, self.model(x, lengths), y)
        sums = self.accelerator.reduce(torch.stack([loss.detach(), metric, targets]), "sum")
        self.optimizer.zero_grad()
        loss = loss * self.accelerator.num_processes / sums[2]  # gradients are averaged over the processes
        if self.gradient_flow_penalty is not None:
            penalty = gradient_flow_penalty(self.network, x, y, lengths, self.target)
            loss = loss + self.gradient_flow_penalty * penalty
        self.accelerator.backward(loss)
        if before_clipping is not None:
            before_clipping()
        bound = math.inf if self.max_grad_norm is None else self.max_grad_norm
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), bound)
        self.optimizer.step()
        return Update(sums[0], sums[1], sums[2], norm.detach())
