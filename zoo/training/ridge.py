"""Ridge regression: the head is computed in closed form from what the network's layers put out, in one pass over the data.

This trains echo state networks (Lukosevicius 2012, section 4), and the head alone of any other network.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data.base import IGNORED, Split
from ..errors import TrainingError
from ..networks.base import evaluating
from ..networks.network import Network
from ..networks.stack import NetworkState
from ..registry.metrics import Target
from ..registry.schema import Recipe
from .evaluation import BATCH_SIZE, measure, score
from .step import Update, Updater


class Sums:
    """X^T X and X^T Y over the examples so far, float64 on the CPU, kept in a run's state as an optimizer's tensors are."""

    def __init__(self, width: int, outputs: int):
        zeros = {"xx": (width, width), "xy": (width, outputs)}
        self.state = {0: {name: torch.zeros(shape, dtype=torch.float64) for name, shape in zeros.items()}}

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add examples. x: (n, width); y: (n, outputs)."""
        self.state[0]["xx"].addmm_(x.T, x)
        self.state[0]["xy"].addmm_(x.T, y)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        self.state = {k: dict(slots) for k, slots in stored["state"].items()} or self.state


class RidgeUpdater:
    """What `Updater` is for gradient descent: `update` adds a batch to the sums, `solve` computes the head at the end.

    With x_n what the head reads and y_n the target, one-hot for classes, the head minimises sum_n |W x_n + b - y_n|^2 +
    penalty |W|^2. Raises TrainingError for a target that least squares cannot fit, or for several processes.
    """

    def __init__(self, network: Network, penalty: float, target: Target, processes: int = 1):
        if target == "binary":
            raise TrainingError("Ridge regression fits classes and values, not probabilities of several events.")
        if processes > 1:
            raise TrainingError(f"Ridge regression runs in one process, not in {processes}.")
        self.network, self.penalty, self.target, self.lr = network, penalty, target, 1.0
        self.optimizer = Sums(network.head.in_features + 1, network.head.out_features)

    def reset_optimizer(self) -> None:
        """Forget all examples."""
        self.optimizer = Sums(self.network.head.in_features + 1, self.network.head.out_features)

    @torch.no_grad()
    def update(self, x: Tensor, y: Tensor, lengths: Tensor | None = None, state: NetworkState | None = None) -> Update:
        """Add a batch to the sums, in eval mode; loss and metric are those of the present head. Raises TrainingError for a stream."""
        if state is not None:
            raise TrainingError("Ridge regression reads separate sequences, not one long text.")
        with evaluating(self.network):
            features = self.network.pooled(x, lengths)
            loss, metric, targets = score(self.target, self.network.head(features), y)
        features = features.flatten(0, -2).cpu().double()
        wanted, counted = self._wanted(y.cpu())
        rows = F.pad(features, (0, 1), value=1.0)[counted]  # the last column is that of the bias
        self.optimizer.add(rows, wanted[counted])
        return Update(loss, metric, targets, None, torch.zeros_like(loss))

    def _wanted(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the targets as rows, (n, outputs) in float64, and which of them count, (n,)."""
        if self.target == "value":
            values = y.flatten(0, -2).double()
            return values, ~values.isnan().any(-1)
        classes = y.flatten()
        return F.one_hot(classes.clamp_min(0), self.network.head.out_features).double(), classes != IGNORED

    @torch.no_grad()
    def solve(self, train: Split) -> tuple[float, float]:
        """Set the head to the minimum, and return its loss and metric on the training examples."""
        xx, xy = (self.optimizer.state[0][name] for name in ("xx", "xy"))
        penalties = torch.full((len(xx),), self.penalty, dtype=torch.float64)
        penalties[-1] = 0.0  # the bias has none
        solution = torch.linalg.solve(xx + penalties.diag(), xy)
        self.network.head.weight.copy_(solution[:-1].T)
        self.network.head.bias.copy_(solution[-1])
        measured = measure(self.network, train, self.target, BATCH_SIZE)
        return measured.loss, measured.metric


def make_updater(network: Network, recipe: Recipe, target: Target, accelerator: Any) -> Updater | RidgeUpdater:
    """Return what makes the updates of a recipe."""
    if recipe.optimizer.penalty is not None:
        return RidgeUpdater(network, recipe.optimizer.penalty, target, accelerator.num_processes)
    return Updater(
        network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm,
        gradient_flow_penalty=recipe.gradient_flow_penalty, accelerator=accelerator,
    )  # fmt: skip
