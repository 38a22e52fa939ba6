"""Initial values of all parameters, drawn from one generator in the order of the modules.

The functions for one direction also fill parameters with leading dimensions, which hold the values of many networks that an
analysis draws at once.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.projections import Projection
from .block import BatchNorm, Block
from .feedforward import FeedForward
from .layer import Direction, Layer
from .network import Network

_THREADS = Lock()
"""Held while the number of threads, which is a setting of the whole process, is changed."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that orthogonal matrices have the same bits on machines of different numbers of cores."""
    with _THREADS:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@torch.no_grad()
def initialise(network: Network, generator: torch.Generator) -> None:
    """Set every parameter of a network as the `init` of its architecture, an Init, says."""
    spec, steps = network.config.architecture, network.interface.steps
    for layers in (m for m in network.modules() if isinstance(m, nn.ModuleList)):
        for depth, layer in enumerate(layers):
            if isinstance(layer, Layer):
                roles = spec.init.resolved(spec.cell, depth)
                for direction in layer.directions:
                    initialise_direction(direction, roles, steps, generator, spec.init.gate_bias)
                if layer.block is not None:
                    _initialise_block(layer.block, generator)
    for depth, hidden in enumerate(network.hidden if isinstance(network, FeedForward) else ()):
        fill(hidden.map.weight, spec.init.resolved(spec.cell, depth)["input"], spec.units, generator)
        hidden.set_initial_values()
    if network.embedding is not None:
        nn.init.normal_(network.embedding.weight, generator=generator)[0] = 0.0
    for convolution in network.neck.convolutions:
        fill(convolution.weight, spec.init.resolved(spec.cell)["input"], len(convolution.weight), generator)
        if convolution.bias is not None:
            nn.init.zeros_(convolution.bias)
    if network.interface.outputs:
        nn.init.xavier_uniform_(network.head.weight, generator=generator)
        nn.init.zeros_(network.head.bias)


def _initialise_block(block: Block, generator: torch.Generator) -> None:
    """Set a block's linear maps to Glorot weights and zero biases, and its norms to scales of one and shifts of zero."""
    for projection in block.projections():
        fill(projection.weight, "glorot-uniform", len(projection.weight), generator)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)
    for module in block.modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm | BatchNorm):
            module.reset_parameters()


@torch.no_grad()
def initialise_direction(
    direction: Direction,
    roles: Mapping[str, str],  # initialiser of the "input" and the "recurrent" maps, see Init.resolved
    steps: int,  # length of the task's sequences
    generator: torch.Generator,
    gate_bias: str | None = None,  # see Init.gate_bias; None: all biases zero, and nothing is drawn for them
    leading: int = 0,  # number of leading dimensions of every parameter
) -> None:
    """Set every parameter of one direction of a layer."""
    for p in direction.cell.parameters():
        nn.init.zeros_(p)
    for module in direction.modules():
        if isinstance(module, Projection):
            is_input = module is direction.input
            blocks = direction.input_channels if is_input else direction.units
            fill(module.weight, roles["input" if is_input else "recurrent"], blocks, generator, leading)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
                if gate_bias is not None:
                    _fill_gate_bias(module.bias, direction, gate_bias, steps, generator)
        elif isinstance(module, nn.LayerNorm | nn.GroupNorm):
            module.reset_parameters()
    if direction.convolution is not None:  # as torch.nn.Conv1d starts
        bound = 1 / math.sqrt(len(direction.convolution.weight))
        nn.init.uniform_(direction.convolution.weight, -bound, bound, generator=generator)
        nn.init.zeros_(direction.convolution.bias)
    direction.cell.set_initial_values(generator, steps)


def fill(
    weight: Tensor,  # (*leading dimensions, gates * units, in, ...)
    name: str,  # a word of zoo.registry.schema.networks.INITIALISERS, "uniform-R" or "normal-S"
    rows: int | Sequence[int],  # number of rows of every gate, or a list with that of each gate
    generator: torch.Generator,
    leading: int = 0,
) -> None:
    """Fill a weight gate by gate, so that fan-in, fan-out and orthogonality are those of one gate's matrix."""
    kind, _, number = name.partition("-")
    for block in weight.split(rows, leading):
        if block.dim() == leading + 1 or name == "zero" or not block.numel():  # a diagonal map has no fans
            nn.init.zeros_(block)
        elif name == "identity":
            _fill_identity(block, leading)
        elif name == "orthogonal":
            _fill_orthogonal(block, generator, leading)
        elif kind == "uniform":
            nn.init.uniform_(block, -float(number), float(number), generator=generator)
        elif kind == "normal":
            nn.init.normal_(block, 0.0, float(number), generator=generator)
        else:
            _fill_by_fans(block, name, generator, leading)


def _fill_by_fans(block: Tensor, name: str, generator: torch.Generator, leading: int) -> None:
    """Fill `block`, the weights of one gate, with a spread that depends on fan-in and fan-out. name, leading: as in `fill`."""
    rows, inputs, *image = block.shape[leading:]
    fan_in, fan_out = inputs * math.prod(image), rows * math.prod(image)
    match name:
        case "glorot-uniform":  # Glorot & Bengio 2010, eq. 16
            std = math.sqrt(2.0 / (fan_in + fan_out))
        case "he-uniform" | "he-normal":  # He et al. 2015, eq. 10
            std = math.sqrt(2.0) / math.sqrt(fan_in)
        case "lecun-uniform":  # U(-r, r) with r = sqrt(3 / fan_in)
            std = 1.0 / math.sqrt(fan_in)
        case _:
            raise NotImplementedError(
                f"There is no initialiser {name!r}; see zoo.registry.schema.networks.INITIALISERS."
            )
    if name.endswith("-normal"):
        nn.init.normal_(block, 0.0, std, generator=generator)
    else:
        bound = math.sqrt(3.0) * std
        nn.init.uniform_(block, -bound, bound, generator=generator)


def _fill_identity(block: Tensor, leading: int) -> None:
    """Make each matrix of `block` an identity, and each convolution one that returns its input. leading: as in `fill`."""
    image = block.shape[leading + 2 :]
    nn.init.zeros_(block)
    centre: Any = (..., *(side // 2 for side in image))
    block[centre].diagonal(dim1=-2, dim2=-1).fill_(1.0)


def _fill_orthogonal(block: Tensor, generator: torch.Generator, leading: int) -> None:
    """Draw each matrix of `block`, (out, in * image), uniformly among those with orthonormal rows (columns, if fewer).

    image: the number of weights of a convolution's kernel, or 1. leading: as in `fill`.
    """
    if leading == 0:
        nn.init.orthogonal_(block, generator=generator)
        return
    # torch's initialiser takes one matrix only
    matrices = block.flatten(leading + 1)
    *runs, rows, columns = matrices.shape
    shape = (*runs, max(rows, columns), min(rows, columns))
    q, r = torch.linalg.qr(torch.randn(shape, generator=generator, dtype=block.dtype))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    block.copy_((q if rows >= columns else q.mT).reshape(block.shape))


def _fill_gate_bias(
    bias: Tensor,  # (channels of all gates,)
    direction: Direction,
    name: str,  # see Init.gate_bias
    steps: int,
    generator: torch.Generator,
) -> None:
    """Set the biases of the memory gates. The gates of a unit share one random number; their signs are in Cell.memory_gates."""
    cell, units = direction.cell, direction.units
    channels = direction.input_channels
    if bias.numel() != sum(channels) or len(channels) != len(cell.inputs):  # not laid out by gates
        return
    draw = torch.rand(units, generator=generator, dtype=torch.float32)
    log_steps = math.log(max(steps, 2))
    memory = {
        "zero": torch.zeros(units),
        "one": torch.ones(units),
        "chrono": torch.log(1 + draw * max(steps - 2, 0)),  # log U(1, T - 1)
        "log-uniform": draw * log_steps,
        "log-uniform-sqrt": draw * log_steps / 2,
    }[name]
    blocks = dict(zip(cell.inputs, bias.split(channels), strict=True))
    forget_gate = next(iter(cell.memory_gates), None)
    for gate, sign in cell.memory_gates.items():
        if name != "one" or gate == forget_gate:  # the customary bias of 1 is the forget gate's alone
            blocks[gate].copy_(sign * memory[: len(blocks[gate])])
