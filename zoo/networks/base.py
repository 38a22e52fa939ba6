"""The base class of networks, the table of network classes, and the choice of devices and dtypes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.base import Cell
from ..cells.projections import Projection
from ..checkpoints.tokenizer import Tokenizer
from ..errors import CellError, RequestError, SizeError, first_line, shown
from ..registry.schema import STREAMS, Config, Interface
from ..utils import import_object
from ..utils.torch_internals import children, parameters, within_compiled

NETWORKS = {
    "sequence": "recurrent.RecurrentNetwork",
    "question": "story_reader.StoryReader",
    **dict.fromkeys(STREAMS, "recurrent.RecurrentNetwork"),
    "none": "feedforward.FeedForward",
}
"""`module.Class` of the network for each form of input (Shapes.form); "none" is for inputs without time steps."""
MAX_PARAMETERS = 200_000_000
"""Larger networks raise SizeError unless the caller allows them: a typing error in a size could fill the memory."""


class ConfiguredModule(nn.Module):
    """A torch module that is built from a Config: the base of Network, for code that saves and loads networks."""

    config: Config
    tokenizer: Tokenizer | None = None
    """Turns text into tokens if the network was trained on text: `net(*net.tokenizer(["A text."]))`. Else None."""

    @property
    def interface(self) -> Interface:
        """The shapes of inputs and outputs."""
        return self.config.interface

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters."""
        return next(self.parameters()).dtype


def network_class(config: Config) -> Any:
    """Return the class in NETWORKS for the form of input that `config` describes."""
    interface = config.interface
    return import_object(NETWORKS["none" if interface.readout == "none" else interface.form], __package__)


def meta_network(config: Config, kind: Any = None) -> Any:
    """Return the network that `config` describes on the meta device: shapes without values, in float32.

    kind: a subclass of `network_class(config)` to construct instead of it. Raises CellError for a cell with tensors that are no
    parameters.
    """
    with torch.device("meta"):
        network = (kind or network_class(config))(config).to(torch.float32)  # torch's default dtype may be another
    for cell in (module for module in network.modules() if isinstance(module, Cell)):
        _require_parameters_alone(cell)
    return network


def _require_parameters_alone(cell: Cell) -> None:
    """Raise CellError for a buffer or another tensor of a cell: a network is built without memory, which loses its values."""
    for prefix, module in cell.named_modules():
        others = {**dict(module.named_buffers(recurse=False)), **vars(module)}
        for name in (name for name, value in others.items() if isinstance(value, Tensor)):
            raise CellError(
                f"{type(cell).__name__} keeps a tensor that is no parameter, {'.'.join(filter(None, (prefix, name)))}, whose values "
                "would be lost. Make it an nn.Parameter that set_initial_values sets, with requires_grad=False if it is not "
                "trained, or compute it in the step by zoo.cells.constants.constant."
            )


def refuse_large(network: ConfiguredModule, hint: str = "") -> None:
    """Raise SizeError if a network, which may be on the meta device, has more than MAX_PARAMETERS. hint: ends the message."""
    size = sum(p.numel() for p in network.parameters())
    if size > MAX_PARAMETERS:
        raise SizeError(f"{network.config.name} has {size:,} parameters, more than {MAX_PARAMETERS:,}{hint}.")


def refuse_computed_weights(network: ConfiguredModule, by_hooks: bool = False) -> None:
    """Raise RequestError if a hook or a parametrization of torch.nn.utils computes a weight of the network.

    by_hooks: whether only hooks count. They compute a weight when the module is called, so that it may be out of date before.
    """
    for name, module in network.named_modules():
        computed = isinstance(module, Projection | nn.Linear | nn.Embedding) and "weight" not in parameters(module)
        if computed and not (by_hooks and "parametrizations" in children(module)):
            raise RequestError(
                f"{network.config.name}: the weight of {name} is computed from other tensors. Call torch.nn.utils.prune.remove or "
                "torch.nn.utils.parametrize.remove_parametrizations first."
            )


def unwrapped(network: Any) -> Any:
    """Return the network inside torch.compile, DataParallel or DistributedDataParallel; anything else as it is."""
    while isinstance(network, nn.Module) and not isinstance(network, ConfiguredModule):
        inner = within_compiled(network) or getattr(network, "module", None)
        if not isinstance(inner, nn.Module):
            return network
        network = inner
    return network


def resolve_device(device: torch.device | str | None, meta: bool = False) -> torch.device:
    """Return `device` if torch can use it; for None a GPU that torch can use, else the CPU.

    meta: whether "meta", the device of tensors without values, is allowed. Raises RequestError if torch cannot use
    the device.
    """
    if device is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise RequestError(f"Device {shown(str(device))} cannot be used. Give cpu, cuda, cuda:1 or mps.") from error
    try:
        if chosen.type != "meta":
            torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, ImportError, ValueError) as error:
        raise RequestError(f"Device {shown(str(device))} cannot be used: {first_line(error)[:200]}") from error
    if chosen.type == "meta" and not meta:
        raise RequestError("Device 'meta' cannot be used: its tensors have no values. Choose another device.")
    return chosen


def flush_denormals() -> None:
    """Make this thread, and threads that it starts later, compute with zero instead of denormal numbers, on the CPU.

    Gradients that vanish through many layers and steps end as denormal numbers, on which a CPU is many times slower.
    """
    torch.set_flush_denormal(True)


def resolve_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Return the dtype with this name, such as "float16"; a torch.dtype or None is returned as it is.

    Raises RequestError unless it is float32, bfloat16, float16 or float64.
    """
    resolved = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and resolved not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise RequestError(
            f"Parameters cannot have dtype {shown(dtype)}. Choose float32, bfloat16, float16 or float64."
        )
    return resolved


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put a network into eval mode within the block; afterwards restore the mode of each module."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
