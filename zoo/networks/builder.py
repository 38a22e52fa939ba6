"""Entry or config to network, on any device including meta; start values; parameter and multiply-add counts."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import torch
from torch import Tensor, nn

from .. import registry
from ..cells.base import Cell
from ..cells.projections import Projection
from ..errors import RequestError, SizeError, first_line
from ..registry import Entry
from ..registry.lock import Counts
from ..registry.schema import Config, Init
from .feedforward import FeedForward
from .layer import Direction
from .network import Network
from .stack import Stack
from .story_reader import Reader

MAX_PARAMETERS = 200_000_000
"""Larger models are refused unless asked for: a slip in a specification should not take a machine's memory."""
_ALONE = Lock()
"""Held while networks get their start values, which changes the number of threads for a moment."""
FORMS: dict[str, type[Network]] = {"sequence": Network, "question": Reader}
"""What reads each form of input, see specs.Shapes."""


def build(
    spec: str | Entry | Config, *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None,
    seed: int = 0, allow_large: bool = False,
) -> Network:  # fmt: skip
    """A freshly initialised network, in training mode.

    spec: a name of the registry, what `zoo.spec` has of one, or a Config of your own. device: where it goes, "meta"
    included (default: the best there is). dtype: of the parameters (default float32). The start values come from `seed`
    alone, an integer, not from torch's global generator, and are the same on every device. Building for a CPU turns on
    flush-to-zero (torch.set_flush_denormal). Raises UnknownNameError, RequestError, and SizeError above MAX_PARAMETERS
    unless allow_large, before any memory is taken.
    """
    found = registry.find(spec) if isinstance(spec, str) else spec
    config = found.config if isinstance(found, Entry) else found
    if not isinstance(config, Config):
        raise RequestError(f"A network is built from a name of the registry or a Config; got {type(config).__name__}.")
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise RequestError(f"A seed is an integer from 0 to 2**63 - 1; got {seed!r}.")
    number = resolve_dtype(dtype) or torch.float32
    with torch.device("meta"):
        network = FeedForward(config) if config.interface.readout == "none" else FORMS[config.interface.form](config)
    if not allow_large:
        refuse_large(network, "; pass allow_large=True to build it")
    target = resolve_device(device, meta=True)
    if target.type == "cpu":
        # gradients that vanish through many layers and steps end as denormal numbers, on which a CPU is many times slower;
        # torch's worker threads inherit the setting when they start
        torch.set_flush_denormal(True)
    if target.type != "meta":
        network.to(torch.float32).to_empty(device="cpu")  # whatever torch's default is
        with _one_thread(), torch.device("cpu"):
            initialise(network, torch.Generator().manual_seed(seed))
    return network.to(device=target, dtype=number)


def refuse_large(network: Network, hint: str = "") -> None:
    """Raise SizeError for a network of more than MAX_PARAMETERS, which is still on the meta device."""
    size = sum(p.numel() for p in network.parameters())
    if size > MAX_PARAMETERS:
        raise SizeError(f"{network.config.name} has {size:,} parameters, more than {MAX_PARAMETERS:,}{hint}.")


def resolve_device(device: torch.device | str | None, meta: bool = False) -> torch.device:
    """`device`, checked to be usable; for None the best there is: a GPU that torch can use, else the CPU.

    meta: whether the device without memory will do. Raises RequestError.
    """
    if device is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        chosen = torch.device(device)
        if chosen.type != "meta":
            torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        raise RequestError(f"Device {str(device)!r} cannot be used: {first_line(error)}") from error
    if chosen.type == "meta" and not meta:
        raise RequestError("Device 'meta' cannot be used: it has no numbers to compute with.")
    return chosen


def resolve_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """A dtype of parameters, also by its name, such as "float16". Raises RequestError for one that is none."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and found not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise RequestError(
            f"Parameters cannot be of dtype {dtype!r}; they can be of float32, bfloat16, float16 or float64."
        )
    return found


def parameters(network: nn.Module) -> int:
    """Number of trainable values, as papers count them: without frozen embeddings. Works on meta."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def multiply_adds(network: Network, steps: int | None = None) -> int:
    """Multiply-adds of the maps for one sequence of `steps` (default: the task's), head included.

    Every map on its way acts once a time step, and a convolution once for every position; elementwise work between states, and
    what makes a map's matrix once a sequence, are not counted.
    """
    steps = steps or network.interface.steps
    area = math.prod(network.interface.input[1:])
    maps = sum(m.cost for part in network.per_step for m in part.modules() if isinstance(m, Projection))
    reads = steps if network.interface.readout == "every" else 1
    neck = network.neck.cost(network.interface.input[1:]) if network.config.architecture.head else 0
    return steps * area * maps + reads * (neck + network.head.weight.numel())


@cache
def counts(name: str) -> Counts:
    """The size of a registered model, counted without allocating."""
    network = build(name, device="meta", allow_large=True)
    return Counts(parameters=parameters(network), multiply_adds=multiply_adds(network))


@torch.no_grad()
def initialise(network: Network, generator: torch.Generator) -> None:
    """Set every parameter as the network's Init says, drawing from `generator` in the order of the modules."""
    spec, steps = network.config.architecture, network.interface.steps
    for part in (module for module in network.modules() if isinstance(module, Stack)):
        for depth, layer in enumerate(part.stack):
            for direction in layer.directions:
                _begin(direction, spec.init, spec.init.resolved(spec.cell, depth), steps, generator)
    for depth, hidden in enumerate(network.hidden if isinstance(network, FeedForward) else ()):
        _fill(hidden.map.weight, spec.init.resolved(spec.cell, depth)["input"], spec.units, generator)
        hidden.reset_parameters()
    for module in network.modules():
        if isinstance(module, nn.LayerNorm | nn.GroupNorm):
            module.reset_parameters()
    if network.embedding is not None:
        nn.init.normal_(network.embedding.weight, generator=generator)[0] = 0.0
    for convolution in network.neck.convolutions if spec.head else ():
        _fill(convolution.weight, spec.init.resolved(spec.cell)["input"], len(convolution.weight), generator)
        if convolution.bias is not None:
            nn.init.zeros_(convolution.bias)
    nn.init.xavier_uniform_(network.head.weight, generator=generator)
    nn.init.zeros_(network.head.bias)


def _begin(direction: Direction, init: Init, roles: dict[str, str], steps: int, generator: torch.Generator) -> None:
    """Set every parameter of a direction but those of its norms; roles: the initialisers of its maps."""
    for p in direction.cell.parameters():
        nn.init.zeros_(p)
    for m in direction.modules():
        if isinstance(m, Projection):
            _fill(m.weight, roles["input" if m is direction.input else "recurrent"], direction.units, generator)
            if m.bias is not None:
                _fill_bias(m.bias, direction.cell, direction.units, init.gate_bias, steps, generator)
    direction.cell.reset_parameters(generator, steps)


def _fill(weight: Tensor, name: str, units: int, generator: torch.Generator) -> None:
    """Fill (gates * units, in, ...) gate by gate: each gate's block is a matrix of its own to the initialisers."""
    for block in weight.split(units):
        kind, _, number = name.partition("-")
        if block.dim() == 1 or name == "zero":  # a diagonal map has no fans
            nn.init.zeros_(block)
        elif name == "identity":
            nn.init.dirac_(block) if block.dim() == 4 else nn.init.eye_(block)
        elif name == "orthogonal":
            nn.init.orthogonal_(block, generator=generator)
        elif name == "glorot-uniform":
            nn.init.xavier_uniform_(block, generator=generator)
        elif name == "he-uniform":
            nn.init.kaiming_uniform_(block, nonlinearity="relu", generator=generator)
        elif name == "he-normal":
            nn.init.kaiming_normal_(block, nonlinearity="relu", generator=generator)
        elif name == "lecun-uniform":  # U(-r, r) with r = sqrt(3 / fan_in)
            nn.init.kaiming_uniform_(block, nonlinearity="linear", generator=generator)
        elif kind == "uniform":
            nn.init.uniform_(block, -float(number), float(number), generator=generator)
        elif kind == "normal":
            nn.init.normal_(block, 0.0, float(number), generator=generator)
        else:
            raise NotImplementedError(name)


@contextmanager
def _one_thread() -> Iterator[None]:
    """An orthogonal matrix comes out to the same bits on machines of different numbers of cores."""
    with _ALONE:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def _fill_bias(bias: Tensor, cell: Cell, units: int, name: str, steps: int, generator: torch.Generator) -> None:
    """Zero, but for the gates of cell.keeps: one draw a unit, shared by the gates, with each gate's sign."""
    nn.init.zeros_(bias)
    if bias.numel() != len(cell.inputs) * units:  # not laid out as the input maps, so no gates in it
        return
    draw = torch.rand(units, generator=generator, dtype=torch.float32)
    span = math.log(max(steps, 2))
    memory = {
        "zero": torch.zeros(units),
        "one": torch.ones(units),
        "chrono": torch.log(1 + draw * max(steps - 2, 0)),  # log U(1, T - 1)
        "log-uniform": draw * span,
        "log-uniform-sqrt": draw * span / 2,
    }[name]
    blocks = dict(zip(cell.inputs, bias.split(units), strict=True))
    for gate, sign in cell.memory_gates.items():
        if name != "one" or gate == next(
            iter(cell.memory_gates)
        ):  # a customary forget bias leaves the input gate alone
            blocks[gate].copy_(sign * memory)
