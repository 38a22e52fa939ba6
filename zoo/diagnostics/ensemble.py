"""Many random networks at once: the parameters of every layer with a leading dimension of runs, and one node of a lattice.

Any cell takes part by its contract alone: `torch.func.vmap` runs its `step` with the parameters of every run.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..cells import FEEDFORWARD, cell_class
from ..cells.base import Cell, State
from ..cells.projections import Dense, Projection
from ..errors import RequestError
from ..networks.builder import refuse_large
from ..networks.layer import Direction
from ..networks.network import Network
from ..registry.schema import Config, Init

Weights = dict[str, Tensor]
"""Parameters of one layer by name, each (runs, ...)."""


class Node(nn.Module):
    """One layer at one time step, with parameters of its own.

    The gradient of a dense map's matrix is the outer product of the error at its output and its input, so its norm is the
    product of their norms; no such gradient is formed. `plain` are the maps of which that holds: dense, used as they are,
    once a step (looked for on the meta device). What is added to their outputs, `bumps`, serves to receive the errors.
    """

    def __init__(self, way: Direction):
        super().__init__()
        self.way = way
        self.seen: dict[str, Tensor] = {}
        self.bumps: dict[str, Tensor] = {}
        self.plain = self._plain() if way.input.weight.is_meta else {}

    def _plain(self) -> dict[str, Dense]:
        dense = {
            name: m
            for name, m in self.named_modules()
            if isinstance(m, Dense) and m.norm is None and m.parametrization is None
        }
        if self.way.cell.axis != -1:
            return {}
        calls: Counter[str] = Counter()
        hooks = [m.register_forward_hook(lambda *_, name=name: calls.update([name])) for name, m in dense.items()]
        x = torch.empty(1, self.way.input.weight.shape[1], device="meta")
        self(x, self.way.initial_state(x))
        for hook in hooks:
            hook.remove()
        once = {name: m for name, m in dense.items() if calls[name] == 1}
        for name, m in once.items():
            m.register_forward_hook(partial(self._received, name))
        return once

    def _received(self, name: str, m: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> Tensor:
        if name not in self.bumps:
            return out
        self.seen[name] = given[0]
        return out + self.bumps[name]

    def forward(self, x: Tensor, state: State) -> State:
        return self.way.step(self.way.cell.prepare(self.way.input(x)), state)

    def called(
        self, weights: Weights, bumps: dict[str, Tensor], x: Tensor, state: State
    ) -> tuple[State, dict[str, Tensor]]:
        """New states, and what the plain maps saw, of all runs: x: (runs, 1, ...), every state and bump (runs, 1, ...)."""

        def one(w: Weights, bumps: dict[str, Tensor], x: Tensor, state: State) -> tuple[State, dict[str, Tensor]]:
            self.seen, self.bumps = {}, bumps
            try:
                return functional_call(self, w, (x, state)), self.seen
            finally:
                self.seen, self.bumps = {}, {}

        return vmap(one)(weights, bumps, x, state)


@dataclass(frozen=True)
class Ensemble:
    """`runs` random networks and their inputs.

    nodes: the layers, their parameters on the meta device; weights: of every layer; x: (runs, time, *input); errors:
    (runs, time, *output), what arrives at every output of the top layer, each of length 1.
    """

    nodes: list[Node]
    weights: list[Weights]
    x: Tensor
    errors: Tensor

    @property
    def runs(self) -> int:
        return len(self.x)

    def start(self, node: Node) -> State:
        """Zero states, (runs, 1, channels, ...)."""
        like = torch.empty(1, *self.x.shape[2:], device="meta")
        zeros = node.way.initial_state(like)
        return tuple(
            self.x.new_zeros(self.runs, *z.shape, dtype=torch.promote_types(z.dtype, self.x.dtype)) for z in zeros
        )


def layers_of(config: Config) -> list[Node]:
    """The layers of a network on the meta device, in eval mode. Raises RequestError for two directions, and SizeError."""
    if config.architecture.cell in FEEDFORWARD:
        raise RequestError(f"{config.name} has no time steps; the analysis of feed-forward networks is `feedforward`.")
    if config.architecture.bidirectional:
        raise RequestError(f"{config.name} is bidirectional; this analysis is of networks of one direction.")
    with torch.device("meta"):
        network = Network(config).eval()
    refuse_large(network)
    return [Node(layer.forward_direction) for layer in network.stack]


def draw(
    config: Config, runs: int, steps: int, generator: torch.Generator, dtype: torch.dtype, correlation: float = 0.5
) -> Ensemble:
    """Random networks and inputs as in "Gating revisited", section 3.1: orthogonal weights, each gate's matrix drawn on its
    own, biases and states zero, x_t = a x_{t-1} + (1 - a) N(0, 1) from x_0 = 0, a being the correlation.

    A cell whose definition has start values of its own keeps them in its recurrent maps (`init` of its row in CELLS) and
    in what belongs to no map (`Cell.reset_parameters`).
    """
    nodes = layers_of(config)
    own = _init(config)
    shape = config.interface.input
    weights = [_weights(node, own, runs, steps, generator, dtype) for node in nodes]
    x = process((runs, steps, *shape), generator, dtype, correlation)
    cell = nodes[-1].way.cell
    width = cell.channels(cell.states[0], nodes[-1].way.units)
    errors = torch.randn(runs, steps, width, *shape[1:], generator=generator, dtype=dtype)
    errors /= errors.flatten(2).norm(dim=2).reshape(runs, steps, *[1] * (errors.dim() - 2))
    return Ensemble(nodes, weights, x, errors)


def _init(config: Config) -> dict[str, str]:
    """Initialiser of each role."""
    return Init(input="orthogonal").resolved(config.architecture.cell)


def start_values(config: Config) -> str:
    """Those of `draw`, in words."""
    own = _init(config)
    kinds = [*own.values()][:1] if len(set(own.values())) == 1 else [f"{role} {kind}" for role, kind in own.items()]
    besides = (
        ", and the cell's own"
        if cell_class(config.architecture.cell).reset_parameters is not Cell.reset_parameters
        else ""
    )
    return f"{', '.join(kinds)}, biases zero{besides}"


def process(
    shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float32, correlation: float = 0.5
) -> Tensor:
    """x_t = a x_{t-1} + (1 - a) N(0, 1) from x_0 = 0, of shape (runs, steps, ...)."""
    noise = (1 - correlation) * torch.randn(shape, generator=generator, dtype=dtype)
    x = [noise[:, 0]]
    for z in noise.unbind(1)[1:]:
        x.append(correlation * x[-1] + z)
    return torch.stack(x, 1)


def _weights(
    node: Node, init: dict[str, str], runs: int, steps: int, generator: torch.Generator, dtype: torch.dtype
) -> Weights:
    """As builder.initialise, for all runs at once; `Cell.reset_parameters` fills its parameters in whatever shape they have."""
    stack = copy.deepcopy(node)
    for module in stack.modules():
        for name, p in module._parameters.items():
            if p is not None:
                ones = isinstance(module, nn.LayerNorm | nn.GroupNorm) and name == "weight"
                filled = torch.full((runs, *p.shape), float(ones), dtype=dtype)
                module._parameters[name] = nn.Parameter(filled, requires_grad=False)
    for m in stack.modules():
        if isinstance(m, Projection):
            kind = init["input" if m is stack.way.input else "recurrent"]
            for block in m.weight.split(stack.way.units, 1):
                fill(block, kind, generator)
    stack.way.cell.reset_parameters(generator, steps)
    return {name: p.detach() for name, p in stack.named_parameters()}


def fill(block: Tensor, name: str, generator: torch.Generator) -> None:
    """Fill (runs, out, in, ...) with one draw a run of a word of specs.networks.WEIGHTS, `uniform-R` or `normal-S`."""
    if block.dim() == 2 or name == "zero":  # a diagonal map has no fans
        block.zero_()
        return
    runs, rows, inputs, *image = block.shape
    area = math.prod(image)
    kind, _, number = name.partition("-")
    if name == "orthogonal":
        block.copy_(orthogonal(runs, rows, inputs * area, generator, block.dtype).reshape(block.shape))
    elif name == "identity":
        block.zero_()
        centre: tuple[Any, ...] = (..., *(side // 2 for side in image))
        block[centre].diagonal(dim1=1, dim2=2).fill_(1.0)
    elif kind == "normal" or name == "he-normal":
        std = float(number) if kind == "normal" else math.sqrt(2 / (inputs * area))
        block.normal_(0.0, std, generator=generator)
    else:
        bounds = {"glorot-uniform": 6 / ((rows + inputs) * area), "he-uniform": 6 / (inputs * area),
                  "lecun-uniform": 3 / (inputs * area)}  # fmt: skip
        bound = math.sqrt(bounds[name]) if name in bounds else float(number)
        block.uniform_(-bound, bound, generator=generator)


def orthogonal(runs: int, rows: int, columns: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """(runs, rows, columns), each uniform among the matrices whose rows, or columns if there are fewer, are orthonormal."""
    tall = torch.randn(runs, max(rows, columns), min(rows, columns), generator=generator, dtype=dtype)
    q, r = torch.linalg.qr(tall)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    return q if rows >= columns else q.mT


def chunks(runs: int, size: int) -> Iterator[int]:
    """Sizes that sum to `runs`, none above `size`."""
    while runs > 0:
        yield min(size, runs)
        runs -= size
