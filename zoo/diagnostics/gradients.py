"""Measures the gradient of each layer's parameters, of a network as it is and during training.

Recurrent networks: "Gating revisited", Fig. 3. Feed-forward networks, with learning curves and hidden outputs: Chen
2022, sections 3.3 and 3.4, Fig. 3.3-3.10.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..data.base import Split
from ..errors import RequestError
from ..networks.feedforward import FeedForward
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from ..registry.schema import Recipe
from ..training.evaluation import score
from ..training.step import Updater
from .base import Array, Axis, Result, histograms
from .subject import NO_CLASSIFIER, Inputs, Lengths, Targets, describe, requires_recurrent

BINS = 40
EARLY = 60
"""Number of first epochs in which the sigmoid network of Chen 2022 improves little."""


def gradients(
    network: RecurrentNetwork, x: Inputs, y: Targets, lengths: Lengths = None, target: Target = "class"
) -> Result:
    """Compute the gradient norm of each layer on one batch, in eval mode: "Gating revisited", Fig. 3 (a).

    x, y, lengths: a batch, such as Split.batch of zoo.data returns. norm: (layer,), the norm of the gradient of the mean loss
    with respect to all parameters of a layer, summed over time as in training; in units of the loss per unit of the
    parameters.
    """
    norms = per_epoch(network, x, y, lengths, target)
    setting = {"of": describe(network.config), "sequences": len(x), "steps": x.shape[1]}
    norm = Array(np.array(norms), (Axis.counted("layer", len(norms)),), log=True)
    return Result(setting, {"norm": norm}, (compare_ends(norms),))


def compare_ends(norms: Sequence[float]) -> str:
    """Return a sentence that compares the gradient norms of the first and of the last layer."""
    first, last = norms[0], norms[-1]
    if len(norms) == 1:
        return f"Gradient norm of the layer: {first:.3g}."
    ratio = f"; ratio {first / last:.3g}" if last else ""
    return f"Gradient norms: layer 1 {first:.3g}, last layer {last:.3g}{ratio}."


@requires_recurrent
def per_epoch(network: RecurrentNetwork, x: Inputs, y: Targets, lengths: Lengths, target: Target) -> list[float]:
    """Return the norm of each layer's gradient of the mean loss of a batch, bottom to top, including frozen parameters.

    x, y, lengths: the batch, as in `gradients`. The norms are NaN if it has no target. The network is not changed.
    """
    parameters = [list(layer.parameters()) for layer in network.layers]
    every = [p for group in parameters for p in group]
    with torch.enable_grad(), unfrozen(every):
        loss, _, targets = score(target, network(x, lengths), y)
        if targets == 0:
            return [math.nan] * len(parameters)
        remaining = iter(torch.autograd.grad(loss / targets, every, allow_unused=True, materialize_grads=True))
    return [_norm([next(remaining) for _ in group]) for group in parameters]


@contextmanager
def unfrozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Set requires_grad of the parameters to True within the `with` block, then restore it."""
    frozen = [p for p in parameters if not p.requires_grad]
    try:
        for p in frozen:
            p.requires_grad_()
        yield
    finally:
        for p in frozen:
            p.requires_grad_(False)


def _norm(tensors: list[Tensor]) -> float:
    """Return the Euclidean norm of the values of all tensors together."""
    return float(torch.stack([t.detach().double().square().sum() for t in tensors]).sum().sqrt())


@requires_recurrent
def evolution(
    network: RecurrentNetwork, data: Split, recipe: Recipe, target: Target = "class", updates: int = 30,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Result:  # fmt: skip
    """Train a network, and record gradient norms and loss in every update.

    The source is "Gating revisited", Fig. 3 (b) and (c).

    This changes the network. Optimizer, batch size and clipping are the recipe's; the learning rate is constant at the
    recipe's full rate. The recipe's seed decides the order of the examples; if there are fewer than a batch, each batch has all
    of them. report(updates done, all updates) is called.

    norm: (layer, update), gradient norms as in `gradients`, before clipping. loss: (update,), the mean loss of the batch.
    """
    updater = Updater(network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(recipe.seed))
    norms: list[list[float]] = []
    losses: list[float] = []

    def record_norms() -> None:
        norms.append([_norm([p.grad for p in layer.parameters() if p.grad is not None]) for layer in network.layers])

    for i in range(updates):
        start = i * recipe.batch_size % max(1, len(data) - recipe.batch_size + 1)
        batch = data.batch(order[start : start + recipe.batch_size], network.device)
        update = updater.update(*batch, before_clipping=record_norms)
        losses.append(float(update.loss / update.targets))
        report(i + 1, updates)
    axis = Axis.counted("update", updates)
    arrays = {
        "norm": Array(np.array(norms).T, (Axis.counted("layer", len(norms[0])), axis), "gradient norm", log=True),
        "loss": Array(np.array(losses), (axis,), "squared error" if target in ("value", "forecast") else "nats"),
    }
    setting = {"of": describe(network.config), **_optimization(recipe), "seed": recipe.seed}
    return Result(setting, arrays, (f"Loss {losses[0]:.3g} at the first update, {losses[-1]:.3g} at the last.",))


def _optimization(recipe: Recipe) -> dict[str, Any]:
    return {"batch": recipe.batch_size, "optimizer": f"{recipe.optimizer.name}, {recipe.optimizer.lr:g}"}


def feedforward(
    network: Network, data: Split, recipe: Recipe, target: Target = "class",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Result:  # fmt: skip
    """Train a feed-forward classifier, and record diagnostics A, B and C after every epoch: Chen 2022.

    This changes the network. Optimizer, batch size and clipping are the recipe's; the learning rate is constant at the
    recipe's full rate. The recipe's seed decides the order of the examples, and a last incomplete batch is used too.
    report(epochs done, all epochs) is called.

    A, gradient: (layer, epoch), the mean of |dy/dW| over the weights of a layer. y is the probability of the last class,
    averaged over the examples. B, loss and accuracy: (epoch,), on the training data, in nats and as a fraction.
    C, outputs: (layer, epoch), mean absolute hidden outputs. means: (layer,), the signed means of the hidden outputs after
    the last epoch. last: (layer, from), the share of these outputs in each bin of equal width; `from` is its left edge.

    Raises RequestError for a network that is not a feed-forward classifier.
    """
    if not isinstance(network, FeedForward) or target != "class":
        raise RequestError(f"{network.config.name} {NO_CLASSIFIER}")
    updater = Updater(network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm)
    generator = torch.Generator().manual_seed(recipe.seed)
    x, y, _ = data.batch(torch.arange(len(data)), network.device)
    slopes, losses, accuracies, outputs = [], [], [], []
    for epoch in range(recipe.epochs):
        for batch in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            updater.update(x[batch], y[batch])
        network.eval()
        hidden = network.features(x)
        logits = network.head(hidden[-1])
        slopes.append(_slopes(network, logits))
        loss, correct, n = score("class", logits.detach(), y)
        losses.append(float(loss / n))
        accuracies.append(float(correct / n))
        outputs.append(_mean_sizes(hidden))
        report(epoch + 1, recipe.epochs)
    hidden = [h.detach().flatten().cpu() for h in hidden]
    shares, edges = histograms([h.numpy() for h in hidden], BINS, (0.0, 1.0))
    epochs, layers = Axis.counted("epoch", recipe.epochs), Axis.counted("layer", len(hidden))
    setting = {
        "of": network.config.name, "epochs": recipe.epochs, **_optimization(recipe), "examples": len(x),
        "seed": recipe.seed,
    }  # fmt: skip
    arrays = {
        "gradient": Array(
            np.array(slopes).T, (Axis("layer", (*layers.ticks, "output")), epochs), "mean |dy/dW|", log=True
        ),
        "loss": Array(np.array(losses), (epochs,), "nats"),
        "accuracy": Array(np.array(accuracies), (epochs,), "fraction"),
        "outputs": Array(np.array(outputs).T, (layers, epochs), "mean |h|"),
        "means": Array(np.array([float(h.mean()) for h in hidden]), (layers,), "mean h"),
        "last": Array(shares, (layers, edges), "hidden output"),
    }
    return Result(setting, arrays, _feedforward_summary(arrays))


def _slopes(network: FeedForward, logits: Tensor) -> list[float]:
    """Return, for each layer, mean |dy/dW| over its weights W. y is the mean probability of the last class."""
    weights = [layer.map.weight for layer in network.hidden] + [network.head.weight]
    return _mean_sizes(torch.autograd.grad(logits.softmax(1)[:, -1].mean(), weights))


def _feedforward_summary(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Return a sentence for each of the diagnostics A, B and C."""
    losses, accuracies = arrays["loss"].values, 100 * arrays["accuracy"].values
    epochs, early = len(losses), min(EARLY, len(losses)) - 1
    slopes, outputs = np.median(arrays["gradient"].values, axis=1), arrays["outputs"].values[:, -1]
    return (
        f"A: mean |dy/dW| in the median epoch, bottom to top: {', '.join(f'{m:.3g}' for m in slopes)}.",
        f"B: loss {losses[0]:.3g} after epoch 1, {losses[early]:.3g} after {early + 1}, {losses[-1]:.3g} after "
        f"{epochs}; accuracy {accuracies[0]:.1f}, {accuracies[early]:.1f} and {accuracies[-1]:.1f} %.",
        f"C: mean absolute hidden outputs at the end: {', '.join(f'{h:.3g}' for h in outputs)}.",
    )


def _mean_sizes(tensors: Sequence[Tensor]) -> list[float]:
    """Return the mean absolute value of each tensor, in order."""
    return [float(t.detach().abs().mean()) for t in tensors]
