"""The papers' analyses of why a recurrent network trains or does not, for any network and any cell.

ANALYSES lists the analyses. Each returns arrays with named axes (zoo.diagnostics.base), which zoo.diagnostics.drawing draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..errors import RequestError
from ..utils import import_object
from ..utils.arguments import check_name

if TYPE_CHECKING:
    from ..training import Recorder
    from .base import Result

__all__ = ["ANALYSES", "Analysis", "Needs", "analysis", "recorder"]

Needs = Literal["architecture", "network", "data", "labels", "training"]


@dataclass(frozen=True)
class Analysis:
    """One analysis: where its function is, what the function needs, and how the result is drawn."""

    path: str
    """`module.function` within zoo.diagnostics."""
    title: str
    needs: Needs
    """Arguments of the function, in this order. "architecture": a Config, for which the function draws random weights.
    "network": a network. "data": a network, x, lengths. "labels": a network, x, targets, lengths, kind of target.
    "training": a new network, the training split, a recipe, kind of target."""
    plot: str
    """How to draw the result: a key of zoo.diagnostics.drawing.PLOTS."""
    epoch: bool = False
    """True if training can record the analysis after every epoch, by the function `per_epoch` of its module."""
    feedforward: bool = False
    """True if the function takes feed-forward networks; all other functions take recurrent networks."""

    @property
    def function(self) -> "Callable[..., Result]":
        """The function that `path` names. Its module is imported at the first use."""
        function: Callable[..., Result] = import_object(self.path, __name__)
        return function


ANALYSES: dict[str, Analysis] = {
    "lattice": Analysis("lattice.lattice", "gradient norm at every node", "architecture", "maps"),
    "jacobian": Analysis(
        "jacobian.jacobian", "singular values of one step at the zero state", "architecture", "curves"
    ),
    "jacobian-at": Analysis(
        "jacobian.jacobian_at", "singular values of one step at the end of a sequence", "data", "curves"
    ),
    "gradients": Analysis("gradients.gradients", "gradient norm of each layer", "labels", "curves", epoch=True),
    "aee": Analysis("outputs.estimation", "average estimation error over steps", "data", "curves"),
    "noh": Analysis("noh.noh", "what the memory owes to its start, over steps", "data", "curves", epoch=True),
    "gates": Analysis("noh.gates", "gradient of the memory by each gate's weights", "data", "curves"),
    "saturation": Analysis("outputs.saturation", "histograms of outputs, saturated gates", "data", "histograms"),
    "dependency": Analysis("noh.dependency", "what is left when one end says nothing", "labels", "curves"),
    "eigenvalues": Analysis("jacobian.eigenvalues", "eigenvalues of the recurrent matrices", "network", "curves"),
    "evolution": Analysis("gradients.evolution", "gradient norms through the first 30 updates", "training", "curves"),
    "feedforward": Analysis(
        "gradients.feedforward", "diagnostics A-C of a feed-forward network", "training", "curves", feedforward=True
    ),
}


def analysis(name: str) -> Analysis:
    """Return the row of ANALYSES called `name`. Raises UnknownNameError, whose message suggests similar names."""
    check_name("analysis", name, ANALYSES, f"There are: {', '.join(ANALYSES)}.")
    return ANALYSES[name]


def recorder(name: str) -> "Recorder":
    """Return the function that computes the analysis `name` after every epoch of training: one number for each layer.

    Raises UnknownNameError if there is no such analysis, and RequestError if training cannot record it.
    """
    recordable = f"Training can record: {', '.join(key for key, row in ANALYSES.items() if row.epoch)}."
    check_name("analysis", name, ANALYSES, recordable)
    if not ANALYSES[name].epoch:
        raise RequestError(f"The analysis {name!r} cannot be recorded while training. {recordable}")
    per_epoch: Recorder = import_object(f"{ANALYSES[name].path.partition('.')[0]}.per_epoch", __name__)
    return per_epoch
