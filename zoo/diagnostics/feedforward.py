"""Diagnostics A, B and C of feed-forward networks: output gradients, learning curves, hidden outputs. Chen 2022, sections
3.3 and 3.4, Fig. 3.3-3.10."""

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
from .base import Array, Axis, Result, histograms, three_digits

BINS = 40
EARLY = 60
"""Epochs in which the thesis sees little improvement of its sigmoid network."""


@dataclass(frozen=True)
class Feedforward(Result):
    """A, gradient: (layer, epoch), the mean |dy/dW| over the weights of a layer, y the mean over the examples of the output,
    the probability of the last class. B, loss and accuracy: (epoch,), on the training data after each epoch; nats and a
    fraction. C, outputs: (layer, epoch), mean absolute hidden outputs; after the last epoch means: (layer,), their means
    with their signs, and last: (layer, from), the share of them in each bin, `from` its left edge.
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
        at = min(EARLY, len(loss)) - 1
        return [
            f"A: mean |dy/dW| in the median epoch, bottom to top: {', '.join(map(three_digits, medians))}.",
            f"B: loss {three_digits(loss[0])} after epoch 1, {three_digits(loss[at])} after {at + 1}, {three_digits(loss[-1])} after {len(loss)}; "
            f"accuracy {accuracy[0]:.1f}, {accuracy[at]:.1f} and {accuracy[-1]:.1f} %.",
            f"C: mean absolute hidden outputs at the end: {', '.join(map(three_digits, self.outputs.values[:, -1]))}.",
        ]


def feedforward(
    network: Network, data: Split, recipe: Recipe, target: Target = "class",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Feedforward:  # fmt: skip
    """Train a feed-forward classifier by a recipe, at its full rate, and record A, B and C after every epoch.

    The order of the examples is drawn from the recipe's seed; a last incomplete batch is used too. The network is changed.
    Raises RequestError for other networks.
    """
    from ..training.optimizers import make_optimizer

    if not isinstance(network, FeedForward) or target != "class":
        raise RequestError(f"{network.config.name} is no feed-forward classifier, such as mlp-3x8-pima.sigmoid.")
    optimizer = make_optimizer(recipe.optimizer, network)
    generator = torch.Generator().manual_seed(recipe.seed)
    x, y, _ = data.batch(torch.arange(len(data)), network.device)
    gradient, loss, accuracy, outputs = [], [], [], []
    for epoch in range(recipe.epochs):
        network.train()
        for part in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            optimizer.zero_grad()
            total, _, n = score(target, network(x[part]), y[part])
            (total / n).backward()
            optimizer.step()
        slopes, nats, right, hidden = _measured(network, x, y)
        gradient.append(slopes)
        loss.append(nats)
        accuracy.append(right)
        outputs.append([float(h.abs().mean()) for h in hidden])
        report(epoch + 1, recipe.epochs)
    last = [h.flatten().cpu() for h in hidden]
    shares, edges = histograms([h.numpy() for h in last], BINS, (0.0, 1.0))
    epochs, layers = Axis.counted("epoch", recipe.epochs), Axis.counted("layer", len(last))
    weighted = Axis("layer", (*layers.ticks, "output"))
    setting = {
        "of": network.config.name, "epochs": recipe.epochs, "batch": recipe.batch_size,
        "optimizer": f"{recipe.optimizer.name}, {recipe.optimizer.lr:g}", "examples": len(x), "seed": recipe.seed,
    }  # fmt: skip
    return Feedforward(
        setting,
        gradient=Array(np.array(gradient).T, (weighted, epochs), "mean |dy/dW|", log=True),
        loss=Array(np.array(loss), (epochs,), "nats"),
        accuracy=Array(np.array(accuracy), (epochs,), "fraction"),
        outputs=Array(np.array(outputs).T, (layers, epochs), "mean |h|"),
        means=Array(np.array([float(h.mean()) for h in last]), (layers,), "mean h"),
        last=Array(shares, (layers, edges), "hidden output"),
    )


def _measured(network: FeedForward, x: Tensor, y: Tensor) -> tuple[list[float], float, float, list[Tensor]]:
    """Of a network as it is: mean |dy/dW| of each weight, bottom to top, loss, accuracy, and the hidden outputs."""
    network.eval()
    hidden = network.features(x)
    logits = network.head(hidden[-1])
    weights = [layer.map.weight for layer in network.hidden] + [network.head.weight]
    slopes = torch.autograd.grad(logits.softmax(1)[:, -1].mean(), weights)
    loss, right, n = score("class", logits.detach(), y)
    return [float(g.abs().mean()) for g in slopes], float(loss / n), float(right / n), [h.detach() for h in hidden]
