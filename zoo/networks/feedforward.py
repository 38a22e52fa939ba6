"""A feed-forward network of any depth, without time steps (Chen 2022, chapters 2 and 3)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..cells.projections import Dense, Projection
from ..errors import RequestError
from ..registry.schema import Config
from .network import Network


@dataclass(frozen=True)
class Activation:
    """An activation function, which may have trainable parameters with one value for each unit."""

    apply: Callable[..., Tensor]
    """Maps (batch, units), followed by the parameters, (units,) each, to (batch, units)."""
    start: dict[str, float] = field(default_factory=dict)
    """The initial value of each parameter by its name, in the order in which `apply` takes them."""


def mpelu(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Return x above zero and alpha (exp(beta x) - 1) below (Li et al. 2017, "MPELU"; Chen 2022, section 3.2.1).

    x: (..., units); alpha, beta: (units,). If both are 1, it is the exponential linear unit.
    """
    below = x.clamp(max=0.0)  # the exponential of a positive x could overflow, and its gradient would be NaN
    return torch.where(x > 0, x, alpha * torch.expm1(beta * below))


def leaky_relu(x: Tensor) -> Tensor:
    """Return x above zero and 0.01 x below (the slope of Chen 2022, section 3.2.1)."""
    return F.leaky_relu(x, 0.01)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """Return x above zero and slope x below; x: (..., units), slope: (units,)."""
    return torch.where(x > 0, x, slope * x)


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(torch.tanh),
    "sigmoid": Activation(torch.sigmoid),
    "relu": Activation(F.relu),
    "leaky-relu": Activation(leaky_relu),
    "prelu": Activation(prelu, {"slope": 0.0}),  # section 3.4
    "elu": Activation(F.elu),
    "mpelu": Activation(mpelu, {"alpha": 1.0, "beta": 1.0}),
}


class Hidden(nn.Module):
    """A hidden layer, phi(W x + b) (Chen 2022, section 2.1.1), with the parameters of phi if it has any."""

    def __init__(self, inputs: int, units: int, activation: str):
        super().__init__()
        self.map = Dense((units, inputs), bias=True)
        self.activation = ACTIVATIONS[activation]
        self.shape = nn.ParameterDict({name: nn.Parameter(torch.empty(units)) for name in self.activation.start})

    def set_initial_values(self) -> None:
        """Set the bias to zero and the activation's parameters to their initial values; `initialise` sets the weight."""
        if self.map.bias is not None:
            nn.init.zeros_(self.map.bias)
        for name, value in self.activation.start.items():
            nn.init.constant_(self.shape[name], value)

    def forward(
        self,
        x: Tensor,  # (batch, inputs)
    ) -> Tensor:
        """Return phi(W x + b), (batch, units)."""
        return self.activation.apply(self.map(x), *(self.shape[name] for name in self.activation.start))


class FeedForward(Network):
    """Hidden layers and a linear head.

    Calling it maps x, (batch, features), to logits, (batch, outputs). It has no lengths, time steps or states.
    """

    hidden: Sequence[Hidden]

    def __init__(self, config: Config):
        super().__init__(config)
        spec = config.architecture
        activation = spec.options.get("activation", "tanh")
        inputs = [config.interface.input[0]] + [spec.units] * (spec.layers - 1)
        self.width = spec.units
        self.hidden = nn.ModuleList(Hidden(n, spec.units, activation) for n in inputs)  # type: ignore[assignment]
        self.dropout = nn.Dropout(spec.dropout)
        self._add_head()

    def projections_per_step(self) -> Iterator[Projection]:
        """Return the linear maps of the hidden layers; the whole input counts as one time step."""
        return (layer.map for layer in self.hidden)

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, None]:
        return self.features(x, lengths)[-1], None

    def features(
        self,
        x: Tensor,  # (batch, features)
        lengths: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the outputs of every hidden layer, bottom to top, each (batch, units).

        Raises RequestError for x of another shape, dtype or device, and for lengths, because there are no time steps.
        """
        name, shape = self.config.name, self._shape_text("batch")
        if lengths is not None:
            raise RequestError(f"{name} is feed-forward: it has no time steps, so no lengths. Call it on ({shape}).")
        self._check_dtype(x)
        if x.dim() != 2 or x.shape[1:] != self.interface.input or 0 in x.shape:
            raise RequestError(f"{name} takes x of shape ({shape}); got {tuple(x.shape)}.")
        outputs = [self._standardized(x)]
        for depth, layer in enumerate(self.hidden):
            outputs.append(layer(outputs[-1] if depth == 0 else self.dropout(outputs[-1])))
        return outputs[1:]

    def _standardized(self, x: Tensor) -> Tensor:
        """Return (x - mean) / std, per feature, if the architecture asks for it."""
        if not self.config.architecture.standardize:
            return x
        return (x - x.new_tensor(self.interface.mean)) / x.new_tensor(self.interface.std)
