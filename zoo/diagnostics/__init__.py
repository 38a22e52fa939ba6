"""Why a recurrent network trains or does not: the analyses of the papers, one file each, for any network and any cell.

ANALYSES lists them. Each returns arrays with named axes (zoo.diagnostics.base); drawing.py draws them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from ..errors import RequestError, UnknownNameError
from ..utils import import_object

if TYPE_CHECKING:
    from ..training import Recorder
    from .base import Array, Axis, Result

__all__ = ["ANALYSES", "Analysis", "Array", "Axis", "Needs", "Result", "analysis", "recorder"]


def __getattr__(name: str) -> Any:
    """Import Array, Axis and Result when they are asked for: they need numpy, which the table does not."""
    if name not in ("Array", "Axis", "Result"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.base"), name)


Needs = Literal["architecture", "network", "data", "labels", "training"]


@dataclass(frozen=True)
class Analysis:
    """One analysis: where its function is, what it needs, and how its result is drawn."""

    path: str
    """`module.function` within zoo.diagnostics."""
    title: str
    needs: Needs
    """Arguments of the function. "architecture": a Config, whose weights are drawn at random. "network": a network with
    its weights. "data": a network, x and lengths. "labels": a network, x, targets, lengths and the kind of target.
    "training": a fresh network, the training split, a recipe and the kind of target."""
    plot: str
    """Key of zoo.diagnostics.drawing.PLOTS."""
    result: str
    """Class of the result, in the function's module."""
    epoch: bool = False
    """True if training can record it after every epoch: the module has `per_epoch(network, x, y, lengths, target)`."""

    feedforward: bool = False
    """True if it takes feed-forward networks; all others take recurrent ones."""

    @property
    def function(self) -> "Callable[..., Result]":
        """The function, imported on first use."""
        function: Callable[..., Result] = import_object(self.path, __name__)
        return function

    @property
    def module(self) -> Any:
        """The module that has the function."""
        return import_module(f"{__name__}.{self.path.rpartition('.')[0]}")


ANALYSES: dict[str, Analysis] = {
    "lattice": Analysis("lattice.lattice", "gradient norm at every node", "architecture", "maps", "Lattice"),
    "jacobian": Analysis(
        "jacobian.jacobian", "singular values of one step at the zero state", "architecture", "curves", "Jacobian"
    ),
    "jacobian-at": Analysis(
        "jacobian.jacobian_at", "singular values of one step at the end of a sequence", "data", "curves", "Jacobian"
    ),
    "gradients": Analysis(
        "gradients.gradients", "gradient norm of each layer", "labels", "curves", "Gradients", epoch=True
    ),
    "aee": Analysis("estimation.estimation", "average estimation error over steps", "data", "curves", "Estimation"),
    "noh": Analysis("noh.noh", "what the memory owes to its start, over steps", "data", "curves", "Noh", epoch=True),
    "gates": Analysis("gates.gates", "gradient of the memory by each gate's weights", "data", "curves", "Gates"),
    "saturation": Analysis(
        "saturation.saturation", "histograms of outputs, saturated gates", "data", "histograms", "Saturation"
    ),
    "dependency": Analysis(
        "dependency.dependency", "what is left when one end says nothing", "labels", "curves", "Dependency"
    ),
    "eigenvalues": Analysis(
        "eigenvalues.eigenvalues", "eigenvalues of the recurrent matrices", "network", "curves", "Eigenvalues"
    ),
    "evolution": Analysis(
        "gradients.evolution", "gradient norms through the first 30 updates", "training", "curves", "Evolution"
    ),
    "feedforward": Analysis(
        "feedforward.feedforward", "diagnostics A-C of a feed-forward network", "training", "curves", "Feedforward",
        feedforward=True,
    ),
}  # fmt: skip


def analysis(name: str) -> Analysis:
    """Return the row of ANALYSES called `name`; raise UnknownNameError with near matches if there is none."""
    if name not in ANALYSES:
        raise UnknownNameError("analysis", name, ANALYSES, f"There are: {', '.join(ANALYSES)}.")
    return ANALYSES[name]


def recorder(name: str) -> "Recorder":
    """Return the function that records the analysis `name` during training: one number for each layer.

    Raises UnknownNameError if there is no such analysis, and RequestError if training cannot record it.
    """
    row = analysis(name)
    if not row.epoch:
        recordable = ", ".join(key for key, other in ANALYSES.items() if other.epoch)
        raise RequestError(f"{name!r} cannot be recorded while training. Choose from: {recordable}.")
    per_epoch: Recorder = row.module.per_epoch
    return per_epoch
