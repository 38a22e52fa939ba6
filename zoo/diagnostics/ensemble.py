"""Runs many random networks at once by `torch.func.vmap`: parameters have a leading dimension of networks.

A "run" is one of these networks. This works for any cell, because vmap calls the cell's own `step` with the parameters of
every run.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..cells import cell_class
from ..cells.base import Cell, State
from ..errors import RequestError
from ..networks.base import meta_network, refuse_large
from ..networks.initialisers import initialise_direction
from ..networks.layer import Direction
from ..registry.schema import Config, Init
from ..utils.shapes import unsqueeze_to

Weights = dict[str, Tensor]
"""Parameters of one layer by name, each (runs, ...)."""


class Node(nn.Module):
    """One layer at one time step, as a module whose parameters `torch.func.functional_call` can replace."""

    def __init__(self, direction: Direction):
        super().__init__()
        self.direction = direction

    def forward(self, x: Tensor, state: State) -> State:
        """Return the new states. The first one is the layer's output. All tensors are (batch, channels, ...)."""
        direction = self.direction
        return direction.step(direction.prepare(x), state)


@dataclass(frozen=True)
class Ensemble:
    """Random networks ("runs") of one architecture, with their inputs and the gradients of the loss at their outputs."""

    nodes: list[Node]
    """A node for each layer, bottom to top. Its parameters are on the meta device; `weights` has their values."""
    weights: list[Weights]
    """The parameters of each layer, bottom to top."""
    x: Tensor
    """Inputs, (runs, time, *input)."""
    errors: Tensor
    """Gradient of the loss with respect to every output of the top layer, (runs, time, channels, ...), of Euclidean norm 1."""

    def zero_state(self, node: Node) -> State:
        """Return the initial states of the layer `node`, zeros, each (runs, 1, channels, ...)."""
        like = torch.empty(1, *self.x.shape[2:], device="meta")
        return tuple(
            self.x.new_zeros(len(self.x), *s.shape, dtype=torch.promote_types(s.dtype, self.x.dtype))
            for s in node.direction.zero_states(like)
        )


def layers_of(config: Config) -> list[Node]:
    """Return the layers of a config on the meta device, in eval mode, bottom to top.

    Raises RequestError for a bidirectional network or one of residual blocks, and SizeError for too many parameters.
    """
    require_one_direction(config)
    spec = config.architecture
    if spec.block is not None:
        raise RequestError(
            f"{config.name} has blocks, but this analysis takes recurrent layers only. To analyse layers of this cell, with its "
            f"default options and without blocks: rnnzoo inspect {spec.prefix.removeprefix('block')}"
        )
    network = meta_network(config).eval()
    refuse_large(network)
    return [Node(layer.forward_direction) for layer in network.layers]


def require_one_direction(config: Config) -> None:
    """Raise RequestError for a bidirectional network."""
    if config.architecture.bidirectional:
        raise RequestError(
            f"{config.name} is bidirectional, but this analysis takes networks of one direction. Choose a network whose name "
            "does not begin with bi."
        )


def draw(config: Config, runs: int, steps: int, generator: torch.Generator, dtype: torch.dtype) -> Ensemble:
    """Return random networks and inputs as in "Gating revisited", section 3.1.

    Weights are orthogonal, each gate's matrix drawn independently; biases and states are zero; inputs come from
    `random_inputs`. Exceptions: recurrent weights for which the cell's row in CELLS has an `init`, and parameters that
    `Cell.set_initial_values` sets. Raises the errors of `layers_of`.
    """
    nodes = layers_of(config)
    weights = [_draw_weights(node, _initialisers(config), runs, steps, generator, dtype) for node in nodes]
    x = random_inputs((runs, steps, *config.interface.input), generator, dtype)
    top = nodes[-1].direction
    channels = top.cell.channels(top.cell.states[0], top.units, **top.options)
    errors = torch.randn(runs, steps, channels, *x.shape[3:], generator=generator, dtype=dtype)
    errors /= unsqueeze_to(errors.flatten(2).norm(dim=2), errors.dim())
    return Ensemble(nodes, weights, x, errors)


def _initialisers(config: Config) -> dict[str, str]:
    """Return the names of the initialisers that `draw` uses, by role of the weights: "input" and "recurrent"."""
    return Init(input="orthogonal").resolved(config.architecture.cell)


def initial_values(config: Config) -> str:
    """Return a description of the initial values that `draw` gives the parameters."""
    roles = _initialisers(config)
    same = len(set(roles.values())) == 1
    names = roles["input"] if same else ", ".join(f"{role} {name}" for role, name in roles.items())
    sets_parameters = cell_class(config.architecture.cell).set_initial_values is not Cell.set_initial_values
    return f"{names}, biases zero" + (", and the cell's own" if sets_parameters else "")


def random_inputs(
    shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float32, correlation: float = 0.5
) -> Tensor:
    """Return random inputs x_t = a x_{t-1} + (1 - a) N(0, 1), x_0 = 0, where a is `correlation`. shape: (runs, time, ...)."""
    noise = (1 - correlation) * torch.randn(shape, generator=generator, dtype=dtype)
    x = [noise[:, 0]]
    for noise_t in noise.unbind(1)[1:]:
        x.append(correlation * x[-1] + noise_t)
    return torch.stack(x, 1)


def _draw_weights(
    node: Node, roles: dict[str, str], runs: int, steps: int, generator: torch.Generator, dtype: torch.dtype
) -> Weights:
    """Return random parameters of one layer by name, each (runs, ...).

    roles: names of initialisers, as `_initialisers` returns them. steps: the length of the sequences, on which some
    initialisers depend.
    """
    node = copy.deepcopy(node)
    for module in node.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.empty(runs, *p.shape, dtype=dtype), requires_grad=False))
    initialise_direction(node.direction, roles, steps, generator, leading=1)
    return {name: p.detach() for name, p in node.named_parameters()}
