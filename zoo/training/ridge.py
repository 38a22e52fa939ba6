"""Ridge regression: computes the weights of the head in closed form, from the features that the layers give it, in one epoch.

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
    """The sums X^T X, (width, width), and X^T Y, (width, outputs), over the examples so far, float64 on the CPU.

    X are the features that the head reads, with a column of ones, and Y the targets. A run's state stores the sums in the
    place of an optimizer's tensors.
    """

    def __init__(self, width: int, outputs: int):
        zeros = {"xx": (width, width), "xy": (width, outputs)}
        self.state = {0: {name: torch.zeros(shape, dtype=torch.float64) for name, shape in zeros.items()}}

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add n examples to X^T X and X^T Y. x: (n, width); y: (n, outputs)."""
        self.state[0]["xx"].addmm_(x.T, x)
        self.state[0]["xy"].addmm_(x.T, y)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state}

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        self.state = {k: dict(slots) for k, slots in stored["state"].items()} or self.state


class RidgeUpdater:
    """Trains the head by ridge regression: `update` adds a batch to `Sums`, and `solve` computes the head after the last batch.

    With x_n the features that the head reads and y_n the target, one-hot for classes, the head minimises sum_n |W x_n + b -
    y_n|^2 + penalty |W|^2. The trainer uses this class as it uses Updater for gradient descent.

    Raises TrainingError for a target that least squares cannot fit, or for several processes.
    """

    def __init__(self, network: Network, penalty: float, target: Target, processes: int = 1):
        if target not in ("class", "token", "value"):
            raise TrainingError(
                f"Ridge regression fits classes and values, not the target {target!r}. Choose a recipe with "
                "another optimizer."
            )
        if processes > 1:
            raise TrainingError(f"Ridge regression runs in one process, not in {processes}. Leave out the launcher.")
        self.network, self.penalty, self.target, self.lr = network, penalty, target, 1.0
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Set X^T X and X^T Y to zero."""
        self.optimizer = Sums(self.network.head.in_features + 1, self.network.head.out_features)

    @torch.no_grad()
    def update(
        self, x: Tensor, y: Tensor, lengths: Tensor | None = None, *, state: NetworkState | None = None
    ) -> Update:
        """Add a batch to the sums from which `solve` computes the head, with the network in eval mode.

        x, y, lengths: as in Updater.update. The returned loss and metric are those of the head before `solve`. Raises
        TrainingError if there is a state: ridge regression reads separate sequences.
        """
        if state is not None:
            raise TrainingError(
                "Ridge regression reads separate sequences, not one long text. Choose a recipe with another optimizer."
            )
        with evaluating(self.network):
            features = self.network.pooled(x, lengths)
            loss, metric, targets = score(self.target, self.network.head(features), y)
        features = features.flatten(0, -2).cpu().double()
        wanted, counted = self._wanted(y.cpu())
        rows = F.pad(features, (0, 1), value=1.0)[counted]  # the last column is that of the bias
        self.optimizer.add(rows, wanted[counted])
        return Update(loss, metric, targets, None, torch.zeros_like(loss))

    def _wanted(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return y as float64 targets, (n, outputs), one-hot for classes, and a mask, (n,), False where one is missing.

        Raises TrainingError for a target of which a part is missing.
        """
        if self.target == "value":
            values = y.flatten(0, -2).double()
            missing = values.isnan()
            if not torch.equal(missing.any(-1), missing.all(-1)):
                raise TrainingError(
                    "Ridge regression solves all outputs from the same examples, but some targets are missing (NaN) in a part "
                    "of the outputs alone. Leave these examples out, or choose a recipe with another optimizer."
                )
            return values, ~missing.any(-1)
        classes = y.flatten().long()
        return F.one_hot(classes.clamp_min(0), self.network.head.out_features).double(), classes != IGNORED

    @torch.no_grad()
    def solve(self, train: Split) -> tuple[float, float]:
        """Set the head to the solution of the regression, and return (loss, metric), means over the examples of `train`."""
        xx, xy = (self.optimizer.state[0][name] for name in ("xx", "xy"))
        penalties = torch.full((len(xx),), self.penalty, dtype=torch.float64)
        penalties[-1] = 0.0  # the bias has none
        try:
            solution = torch.linalg.solve(xx + penalties.diag(), xy)
        except RuntimeError as error:  # torch.linalg.LinAlgError
            raise TrainingError(
                "The head has no solution: no training example has a target, or its inputs are not finite."
            ) from error
        self.network.head.weight.copy_(solution[:-1].T)
        self.network.head.bias.copy_(solution[-1])
        measured = measure(self.network, train, self.target, BATCH_SIZE)
        return measured.loss, measured.metric


def make_updater(network: Network, recipe: Recipe, target: Target, accelerator: Any) -> Updater | RidgeUpdater:
    """Return a RidgeUpdater if the recipe's optimizer is ridge, else an Updater."""
    if recipe.optimizer.penalty is not None:
        return RidgeUpdater(network, recipe.optimizer.penalty, target, accelerator.num_processes)
    return Updater(
        network, recipe.optimizer, target, max_grad_norm=recipe.max_grad_norm,
        gradient_flow_penalty=recipe.gradient_flow_penalty, accelerator=accelerator,
    )  # fmt: skip
