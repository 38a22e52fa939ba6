"""How large a gradient each layer's parameters get, now and through training: "Gating revisited", Fig. 3."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.base import Split
from ..networks.network import Network
from ..registry.metrics import Target
from ..registry.schema import Recipe
from ..training.evaluation import score
from .base import Array, Axis, Result, three_digits
from .subject import described, of_sequences


@dataclass(frozen=True)
class Gradients(Result):
    """norm: (layer,), the norm of the gradient of the mean loss with respect to all parameters of a layer, summed over time
    as training uses it; in units of the loss by units of the parameters."""

    norm: Array

    paper = "star"
    section = "Fig. 3 (a)"

    @property
    def lines(self) -> list[str]:
        first, last = self.norm.values[0], self.norm.values[-1]
        if len(self.norm.values) == 1 or last == 0:
            return [f"Gradient norm of the layer: {three_digits(first)}."]
        return [
            f"Gradient norms: layer 1 {three_digits(first)}, last layer {three_digits(last)}; ratio {three_digits(first / last)}."
        ]


@dataclass(frozen=True)
class Evolution(Result):
    """norm: (layer, update), gradient norms as in Gradients before each update recorded; loss: (update,), of that batch."""

    norm: Array
    loss: Array

    paper = "star"
    section = "Fig. 3 (b) and (c)"

    @property
    def lines(self) -> list[str]:
        first, last = self.loss.values[0], self.loss.values[-1]
        return [f"Loss {three_digits(first)} at the first update recorded, {three_digits(last)} at the last."]


def gradients(
    network: Network, x: Tensor, y: Tensor, lengths: Tensor | None = None, target: Target = "class"
) -> Gradients:
    """Gradient norms per layer of a network as it is, in eval mode, on one batch; see tasks.base.Split.batch for it."""
    norms = np.array(per_epoch(network, x, y, lengths, target))
    setting = {"of": described(network.config), "sequences": len(x), "steps": x.shape[1]}
    return Gradients(setting, Array(norms, (Axis.counted("layer", len(norms)),), log=True))


@of_sequences
def per_epoch(network: Network, x: Tensor, y: Tensor, lengths: Tensor | None, target: Target) -> list[float]:
    """The norm of each layer, bottom to top; gradients and mode of the network are left as they were."""
    groups = [[p for p in layer.parameters() if p.requires_grad] for layer in network.stack]
    with torch.enable_grad():
        loss, _, targets = score(target, network(x, lengths), y)
        flat = [p for group in groups for p in group]
        found = iter(torch.autograd.grad(loss / targets, flat, allow_unused=True, materialize_grads=True))
    return [_norm([next(found) for _ in group]) for group in groups]


def _norm(tensors: list[Tensor]) -> float:
    return float(torch.stack([t.detach().double().square().sum() for t in tensors]).sum().sqrt())


@of_sequences
def evolution(
    network: Network, data: Split, recipe: Recipe, target: Target = "class", updates: int = 30, every: int = 1,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Evolution:  # fmt: skip
    """Train for so many updates by a recipe's optimizer, batch and clipping, at its full rate, recording every `every`-th.

    The order of the examples is drawn from the recipe's seed. The network is changed.
    """
    from ..training.optimizers import make_optimizer

    network.train()
    optimizer = make_optimizer(recipe.optimizer, network)
    generator = torch.Generator().manual_seed(recipe.seed)
    norms, losses, at = [], [], []
    order = torch.randperm(len(data), generator=generator)
    for update in range(updates):
        start = update * recipe.batch_size % (len(data) - recipe.batch_size + 1)
        x, y, lengths = data.batch(order[start : start + recipe.batch_size], network.device)
        loss, _, targets = score(target, network(x, lengths), y)
        loss = loss / targets
        optimizer.zero_grad()
        loss.backward()
        if update % every == 0 or update == updates - 1:
            of = [[p.grad for p in layer.parameters() if p.grad is not None] for layer in network.stack]
            norms.append([_norm(group) for group in of])
            losses.append(float(loss.detach()))
            at.append(update + 1)
        if recipe.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.max_grad_norm)
        optimizer.step()
        report(update + 1, updates)
    axis = Axis("update", tuple(at))
    setting = {
        "of": described(network.config), "batch": recipe.batch_size,
        "optimizer": f"{recipe.optimizer.name}, {recipe.optimizer.lr:g}", "seed": recipe.seed,
    }  # fmt: skip
    return Evolution(
        setting,
        Array(np.array(norms).T, (Axis.counted("layer", len(norms[0])), axis), log=True),
        Array(np.array(losses), (axis,), "nats" if target == "class" else "squared error"),
    )
