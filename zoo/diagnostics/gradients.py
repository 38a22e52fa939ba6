"""How large a gradient each layer's parameters get, now and through training: "Gating revisited", Fig. 3."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.base import Split
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from ..registry.schema import Recipe
from ..training.evaluation import score
from ..training.loop import Updater
from .base import Array, Axis, Result, three_digits
from .subject import describe, requires_recurrent


@dataclass(frozen=True)
class Gradients(Result):
    """norm: (layer,), the norm of the gradient of the mean loss for all parameters of a layer, summed over time as in
    training; in units of the loss per unit of the parameters."""

    norm: Array

    paper = "star"
    section = "Fig. 3 (a)"

    @property
    def lines(self) -> list[str]:
        first, last = self.norm.values[0], self.norm.values[-1]
        if len(self.norm.values) == 1 or last == 0:
            return [f"Gradient norm of the layer: {three_digits(first)}."]
        ratio = three_digits(first / last)
        return [f"Gradient norms: layer 1 {three_digits(first)}, last layer {three_digits(last)}; ratio {ratio}."]


@dataclass(frozen=True)
class Evolution(Result):
    """norm: (layer, update), gradient norms as in Gradients, before clipping, of each update recorded.
    loss: (update,), the mean loss of that update's batch."""

    norm: Array
    loss: Array

    paper = "star"
    section = "Fig. 3 (b) and (c)"

    @property
    def lines(self) -> list[str]:
        first, last = self.loss.values[0], self.loss.values[-1]
        return [f"Loss {three_digits(first)} at the first update recorded, {three_digits(last)} at the last."]


def gradients(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    y: Tensor,  # targets as in evaluation.score
    lengths: Tensor | None = None,  # (batch,)
    target: Target = "class",
) -> Gradients:
    """Compute the gradient norm of each layer on one batch, in eval mode. Split.batch of zoo.data makes such batches."""
    norms = np.array(per_epoch(network, x, y, lengths, target))
    setting = {"of": describe(network.config), "sequences": len(x), "steps": x.shape[1]}
    return Gradients(setting, Array(norms, (Axis.counted("layer", len(norms)),), log=True))


@requires_recurrent
def per_epoch(
    network: RecurrentNetwork,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    y: Tensor,  # targets as in evaluation.score
    lengths: Tensor | None,  # (batch,)
    target: Target,
) -> list[float]:
    """Return the norm of each layer, bottom to top; leave the network's gradients and mode as they are."""
    parameters = [[p for p in layer.parameters() if p.requires_grad] for layer in network.layers]
    with torch.enable_grad():
        loss, _, targets = score(target, network(x, lengths), y)
        every = [p for group in parameters for p in group]
        remaining = iter(torch.autograd.grad(loss / targets, every, allow_unused=True, materialize_grads=True))
    return [_norm([next(remaining) for _ in group]) for group in parameters]


def _norm(tensors: list[Tensor]) -> float:
    """The Euclidean norm of all values together."""
    return float(torch.stack([t.detach().double().square().sum() for t in tensors]).sum().sqrt())


@requires_recurrent
def evolution(
    network: RecurrentNetwork, data: Split, recipe: Recipe, target: Target = "class", updates: int = 30, every: int = 1,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Evolution:  # fmt: skip
    """Train for a number of updates and record every `every`-th and the last. The network is changed.

    Optimizer, batch size and clipping are the recipe's, and the learning rate is its full rate throughout. The order of
    the examples is drawn from the recipe's seed. report: called with the updates done and their total.
    """
    updater = Updater(network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(recipe.seed))
    norms: list[list[float]] = []
    losses, recorded = [], []

    def record_norms() -> None:
        norms.append([_norm([p.grad for p in layer.parameters() if p.grad is not None]) for layer in network.layers])

    for i in range(updates):
        records = i % every == 0 or i == updates - 1
        start = i * recipe.batch_size % (len(data) - recipe.batch_size + 1)
        batch = data.batch(order[start : start + recipe.batch_size], network.device)
        update = updater.update(*batch, before_clipping=record_norms if records else None)
        if records:
            losses.append(float(update.loss / update.targets))
            recorded.append(i + 1)
        report(i + 1, updates)
    axis = Axis("update", tuple(recorded))
    setting = {
        "of": describe(network.config), "batch": recipe.batch_size,
        "optimizer": f"{recipe.optimizer.name}, {recipe.optimizer.lr:g}", "seed": recipe.seed,
    }  # fmt: skip
    return Evolution(
        setting,
        Array(np.array(norms).T, (Axis.counted("layer", len(norms[0])), axis), log=True),
        Array(np.array(losses), (axis,), "nats" if target == "class" else "squared error"),
    )
