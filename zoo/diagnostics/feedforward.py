"""Diagnostics A, B and C of feed-forward networks: output gradients, learning curves, hidden outputs.

Chen 2022, sections 3.3 and 3.4, Fig. 3.3-3.10.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.base import Split
from ..errors import RequestError
from ..networks.feedforward import FeedForward
from ..networks.network import Network
from ..registry.metrics import Target
from ..registry.schema import Recipe
from ..training.evaluation import score
from ..training.loop import Updater
from .base import Array, Axis, Result, histograms, three_digits

BINS = 40
EARLY = 60
"""Epochs in which the thesis sees little improvement of its sigmoid network."""


@dataclass(frozen=True)
class Feedforward(Result):
    """Diagnostics after every epoch of training.

    A, gradient: (layer, epoch), the mean of |dy/dW| over the weights of a layer. y is the probability of the last class,
    averaged over the examples.
    B, loss and accuracy: (epoch,), on the training data after each epoch, in nats and as a fraction.
    C, outputs: (layer, epoch), mean absolute hidden outputs. means: (layer,), their means with signs after the last
    epoch. last: (layer, from), the share of them in each bin of equal width, whose left edge is `from`.
    """

    gradient: Array
    loss: Array
    accuracy: Array
    outputs: Array
    means: Array
    last: Array

    paper = "chen"
    section = "sections 3.3 and 3.4, Fig. 3.3-3.10"

    @property
    def lines(self) -> list[str]:
        medians = np.median(self.gradient.values, axis=1)
        loss, accuracy = self.loss.values, 100 * self.accuracy.values
        early = min(EARLY, len(loss)) - 1
        first_loss, early_loss, last_loss = (three_digits(loss[i]) for i in (0, early, -1))
        return [
            f"A: mean |dy/dW| in the median epoch, bottom to top: {', '.join(map(three_digits, medians))}.",
            f"B: loss {first_loss} after epoch 1, {early_loss} after {early + 1}, {last_loss} after {len(loss)}; "
            f"accuracy {accuracy[0]:.1f}, {accuracy[early]:.1f} and {accuracy[-1]:.1f} %.",
            f"C: mean absolute hidden outputs at the end: {', '.join(map(three_digits, self.outputs.values[:, -1]))}.",
        ]


@dataclass(frozen=True)
class Snapshot:
    """The diagnostics of a network as it is."""

    slopes: list[float]
    """Mean |dy/dW| of each weight, bottom to top."""
    loss: float
    accuracy: float
    outputs: list[float]
    """Mean |h| of each hidden layer."""


def feedforward(
    network: Network, data: Split, recipe: Recipe, target: Target = "class",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Feedforward:  # fmt: skip
    """Train a feed-forward classifier by a recipe, at its full learning rate, and record A, B and C after every epoch.

    The order of the examples is drawn from the recipe's seed, and a last incomplete batch is used too. The network is
    changed. report: called with the epochs done and their total. Raises RequestError for other networks.
    """
    if not isinstance(network, FeedForward) or target != "class":
        raise RequestError(f"{network.config.name} is no feed-forward classifier, such as mlp-3x8-pima.sigmoid.")
    updater = Updater(network, recipe.optimizer, target)
    generator = torch.Generator().manual_seed(recipe.seed)
    x, y, _ = data.batch(torch.arange(len(data)), network.device)
    snapshots: list[Snapshot] = []
    for epoch in range(recipe.epochs):
        for batch in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            updater.update(x[batch], y[batch])
        snapshots.append(_snapshot(network, x, y))
        report(epoch + 1, recipe.epochs)
    hidden = [h.detach().flatten().cpu() for h in network.features(x)]  # still in eval mode
    shares, edges = histograms([h.numpy() for h in hidden], BINS, (0.0, 1.0))
    epochs, layers = Axis.counted("epoch", recipe.epochs), Axis.counted("layer", len(hidden))
    layers_with_weights = Axis("layer", (*layers.ticks, "output"))
    setting = {
        "of": network.config.name, "epochs": recipe.epochs, "batch": recipe.batch_size,
        "optimizer": f"{recipe.optimizer.name}, {recipe.optimizer.lr:g}", "examples": len(x), "seed": recipe.seed,
    }  # fmt: skip
    return Feedforward(
        setting,
        gradient=Array(
            np.array([s.slopes for s in snapshots]).T, (layers_with_weights, epochs), "mean |dy/dW|", log=True
        ),
        loss=Array(np.array([s.loss for s in snapshots]), (epochs,), "nats"),
        accuracy=Array(np.array([s.accuracy for s in snapshots]), (epochs,), "fraction"),
        outputs=Array(np.array([s.outputs for s in snapshots]).T, (layers, epochs), "mean |h|"),
        means=Array(np.array([float(h.mean()) for h in hidden]), (layers,), "mean h"),
        last=Array(shares, (layers, edges), "hidden output"),
    )


def _snapshot(
    network: FeedForward,
    x: Tensor,  # (examples, features)
    y: Tensor,  # (examples,), classes
) -> Snapshot:
    """Measure the network in eval mode, and leave it there."""
    network.eval()
    hidden = network.features(x)
    logits = network.head(hidden[-1])
    weights = [layer.map.weight for layer in network.hidden] + [network.head.weight]
    slopes = torch.autograd.grad(logits.softmax(1)[:, -1].mean(), weights)
    loss, correct, n = score("class", logits.detach(), y)
    mean_slopes, outputs = ([float(t.detach().abs().mean()) for t in tensors] for tensors in (slopes, hidden))
    return Snapshot(mean_slopes, float(loss / n), float(correct / n), outputs)
