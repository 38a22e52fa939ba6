"""A feed-forward network of any depth: what networks were before they had time (Chen 2022, chapters 2 and 3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..cells.projections import Dense
from ..errors import RequestError
from ..registry.schema import Config
from .conv_head import ConvolutionalHead
from .network import Network, NetworkState


@dataclass(frozen=True)
class Activation:
    """What a hidden unit makes of its input."""

    apply: Callable[..., Tensor]
    """Of the inputs, (batch, units), and the parameters, (units,) each, in their order."""
    start: dict[str, float] = field(default_factory=dict)
    """Parameters, one a unit, and the value that they start from."""


def mpelu(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """x above zero, alpha (exp(beta x) - 1) below (Li et al. 2017, "MPELU"; Chen 2022, section 3.2.1).

    x: (..., units); alpha, beta: (units,). With both 1 it is the exponential linear unit.
    """
    below = x.clamp(max=0.0)  # an exponential of what lies above could overflow, and its gradient be NaN
    return x.clamp(min=0.0) + alpha * torch.expm1(beta * below)


def leaky_relu(x: Tensor) -> Tensor:
    """x above zero, 0.01 x below, the multiplier of Chen 2022, section 3.2.1."""
    return F.leaky_relu(x, 0.01)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x above zero, slope x below; slope: (units,)."""
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
    """A hidden layer, phi(W x + b) (Chen 2022, section 2.1.1), with the parameters of phi, if it has any."""

    def __init__(self, inputs: int, units: int, activation: str):
        super().__init__()
        self.map = Dense((units, inputs), bias=True)
        self.activation = ACTIVATIONS[activation]
        self.shape = nn.ParameterDict({name: nn.Parameter(torch.empty(units)) for name in self.activation.start})

    def reset_parameters(self) -> None:
        """Set all but the weight, which is the initialiser's: a bias of zero, and what the activation starts from."""
        if self.map.bias is not None:
            nn.init.zeros_(self.map.bias)
        for name, value in self.activation.start.items():
            nn.init.constant_(self.shape[name], value)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, inputs) to (batch, units)."""
        return self.activation.apply(self.map(x), *(self.shape[name] for name in self.activation.start))


class FeedForward(Network):
    """Hidden layers and a linear head: x, (batch, features), to logits, (batch, outputs).

    It is called, trained, saved and loaded as a recurrent network is, and refuses lengths and what takes time steps or
    states.
    """

    hidden: Sequence[Hidden]

    def __init__(self, config: Config):
        nn.Module.__init__(self)  # none of the recurrent parts
        self.config = config
        spec, shape = config.architecture, config.interface
        self.embedding = None
        self.layers = nn.ModuleList()
        activation = spec.options.get("activation", "tanh")
        inputs = [shape.input[0]] + [spec.units] * (spec.layers - 1)
        self.hidden = nn.ModuleList(Hidden(n, spec.units, activation) for n in inputs)  # type: ignore[assignment]
        self.dropout = nn.Dropout(spec.dropout)
        self.width, self.neck = spec.units, ConvolutionalHead(None, spec.units)
        self.head = nn.Linear(self.width, shape.outputs)

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, None]:
        return self.features(x, lengths)[-1], None

    def features(self, x: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """The outputs of every hidden layer, bottom to top, each (batch, units)."""
        if lengths is not None or self.tbptt_steps is not None or self.checkpoint_every is not None:
            raise self._without_time("be given lengths, be truncated or be recomputed")
        self._check_dtype(x)
        if x.dim() != 2 or x.shape[1:] != self.interface.input or 0 in x.shape:
            raise RequestError(f"{self.config.name} takes ({self._input_text('batch')}); got {tuple(x.shape)}.")
        outputs = [self._standardized(x)]
        for depth, layer in enumerate(self.hidden):
            outputs.append(layer(outputs[-1] if depth == 0 else self.dropout(outputs[-1])))
        return outputs[1:]

    def _standardized(self, h: Tensor) -> Tensor:
        shape = self.interface
        if not self.config.architecture.standardize:
            return h
        return (h - h.new_tensor(shape.mean)) / h.new_tensor(shape.std)

    def initial_state(self, batch: int) -> NetworkState:
        """Raises RequestError: there is no state."""
        raise self._without_time("have a state")

    def step(self, x: Tensor, state: NetworkState | None = None) -> tuple[Tensor, NetworkState]:
        """Raises RequestError: there are no time steps."""
        raise self._without_time("step")

    def encode(
        self, x: Tensor, state: NetworkState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, NetworkState]:
        """Raises RequestError: there is no state to go on from."""
        raise self._without_time("encode a sequence")

    def trace(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[tuple[Tensor, list[Tensor]]]]:
        """Raises RequestError: there are no time steps."""
        raise self._without_time("be traced through time")

    def _without_time(self, what: str) -> RequestError:
        return RequestError(
            f"{self.config.name} is feed-forward, without time steps and states: it cannot {what}. Call it on "
            f"({self._input_text('batch')}), or see its features."
        )
