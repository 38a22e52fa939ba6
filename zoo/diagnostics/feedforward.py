"""Diagnostics A, B and C of feed-forward networks: output gradients, learning curves, hidden outputs. Chen 2022, sections
3.3 and 3.4, Fig. 3.3-3.10."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import Array, Axis, Result, times

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU, "leaky": lambda: nn.LeakyReLU(0.3), "elu": nn.ELU,
    "prelu": lambda: nn.PReLU(init=0.0),  # the thesis starts it at 0
}  # fmt: skip
INITIALISERS: dict[str, Callable[[Tensor, torch.Generator], object]] = {
    "glorot-uniform": lambda w, g: nn.init.xavier_uniform_(w, generator=g),
    "he-normal": lambda w, g: nn.init.kaiming_normal_(w, generator=g),
    "lecun-uniform": lambda w, g: nn.init.uniform_(w, *_pair(math.sqrt(3 / w.shape[1])), generator=g),
    "uniform": lambda w, g: nn.init.uniform_(w, *_pair(0.05), generator=g),  # of Keras
}
BINS = 40


@dataclass(frozen=True)
class Feedforward(Result):
    """A, gradient: (layer, epoch), the mean |d(mean output)/dW| over the weights of a layer, before the output's sigmoid.
    B, loss and accuracy: (epoch,), on the training data after each epoch, nats and a fraction. C, outputs: (layer, epoch),
    mean absolute hidden outputs; last: (layer, from), the share of those of the last epoch in each bin, `from` its left edge.
    """

    gradient: Array
    loss: Array
    accuracy: Array
    outputs: Array
    last: Array

    paper = "chen"
    where = "sections 3.3 and 3.4, Fig. 3.3-3.10"

    @property
    def lines(self) -> list[str]:
        first, final = self.gradient.values[0], self.gradient.values[-1]
        loss, accuracy = self.loss.values, self.accuracy.values
        at = min(60, len(loss)) - 1
        return [
            f"A: gradients of layer 1 are {times(np.median(first))} in the median epoch, {times(np.median(final))} at the output.",
            f"B: loss {times(loss[0])} after epoch 1, {times(loss[at])} after {at + 1}, {times(loss[-1])} at the end; "
            f"accuracy {100 * accuracy[0]:.1f}, {100 * accuracy[at]:.1f} and {100 * accuracy[-1]:.1f} %.",
            "C: mean absolute outputs at the end " + ", ".join(times(v) for v in self.outputs.values[:, -1]) + ".",
        ]  # fmt: skip


def network(
    features: int, hidden: Sequence[int], activation: str, initialisers: Sequence[str], seed: int = 0
) -> nn.Sequential:
    """Linear layers with an activation between them and one output; initialisers: one a hidden layer, biases zero."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    sizes = [features, *hidden, 1]
    for width, outputs, name in zip(sizes, sizes[1:], [*initialisers, "glorot-uniform"], strict=True):
        linear = nn.Linear(width, outputs)
        INITIALISERS[name](linear.weight, generator)
        nn.init.zeros_(linear.bias)
        layers += [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


def feedforward(
    layers: nn.Sequential, x: Tensor, y: Tensor, *, epochs: int = 150, batch: int = 32, lr: float = 0.001, seed: int = 0,
    setting: dict[str, object] | None = None,
) -> Feedforward:  # fmt: skip
    """Train any sequence of layers that ends in one output for binary cross-entropy, and record A, B and C every epoch.

    x: (n, features), y: (n,) of 0 and 1. Adam; hidden outputs are those of every layer but the linear ones. The order of
    the examples is drawn from the seed.
    """
    optimizer = torch.optim.Adam(layers.parameters(), lr)
    generator = torch.Generator().manual_seed(seed)
    linears = [m for m in layers if isinstance(m, nn.Linear)]
    rows: list[tuple[list[float], float, float, list[Tensor]]] = []
    for _ in range(epochs):
        for part in torch.randperm(len(x), generator=generator).split(batch):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(layers(x[part]).squeeze(1), y[part]).backward()
            optimizer.step()
        h, hidden = x, []
        for m in layers:
            h = m(h)
            if not isinstance(m, nn.Linear):
                hidden.append(h.detach())
        logits = h.squeeze(1)
        found = torch.autograd.grad(logits.mean(), [m.weight for m in linears])
        loss = float(F.binary_cross_entropy_with_logits(logits, y).detach())
        accuracy = float(((logits > 0) == (y > 0.5)).double().mean())
        rows.append(([float(g.abs().mean()) for g in found], loss, accuracy, hidden))
    epoch, depth = Axis.counted("epoch", epochs), len(rows[-1][3])
    last = [h.flatten() for h in rows[-1][3]]
    low, high = min(float(h.min()) for h in last), max(float(h.max()) for h in last)
    low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
    shares = np.array([torch.histc(h, BINS, low, high).numpy() / len(h) for h in last])
    edges = Axis("from", tuple(float(f"{e:.4g}") for e in np.linspace(low, high, BINS + 1)[:-1]))
    common = {"epochs": epochs, "batch": batch, "optimizer": f"adam, {lr:g}", "examples": len(x), "seed": seed}
    return Feedforward(
        {**(setting or {}), **common},
        gradient=Array(np.array([r[0] for r in rows]).T, (Axis.counted("layer", len(linears)), epoch), "mean |dy/dW|", log=True),
        loss=Array(np.array([r[1] for r in rows]), (epoch,), "nats"),
        accuracy=Array(np.array([r[2] for r in rows]), (epoch,), "fraction"),
        outputs=Array(
            np.array([[float(h.abs().mean()) for h in r[3]] for r in rows]).T, (Axis.counted("layer", depth), epoch), "mean |h|"
        ),
        last=Array(shares, (Axis.counted("layer", depth), edges), "hidden output"),
    )  # fmt: skip


def circles(n: int = 800, noise: float = 0.1, ratio: float = 0.5, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Two concentric circles in the plane, radius 1 and `ratio`, with Gaussian noise: x (n, 2), y (n,)."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(n) % 2).float()
    angle = 2 * math.pi * torch.rand(n, generator=generator)
    radius = torch.where(y > 0.5, torch.tensor(ratio), torch.tensor(1.0))
    x = radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1)
    return x + noise * torch.randn(n, 2, generator=generator), y


def table(text: str) -> tuple[Tensor, Tensor]:
    """x and y of a comma-separated table, features first and the class, 0 or 1, last; a line of names is left out."""
    rows = [row for row in csv.reader(text.splitlines()) if row]
    first = 0 if _is_number(rows[0][0]) else 1
    values = torch.tensor([[float(v) for v in row] for row in rows[first:]])
    return values[:, :-1], values[:, -1]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _pair(bound: float) -> tuple[float, float]:
    return -bound, bound
