"""`zoo.build`: from a name or a Config to a freshly initialised network, on any device including meta."""

from collections.abc import Sequence

import torch
from pydantic import ValidationError

from .. import registry
from ..cells import FEEDFORWARD, ROWS
from ..errors import RequestError, UnknownNameError, faults, shown
from ..registry import Entry
from ..registry.schema import Architecture, Config, Interface
from ..utils.arguments import plain
from .base import flush_denormals, meta_network, refuse_large, resolve_device, resolve_dtype
from .initialisers import initialise, one_thread
from .network import Network

STEPS = 100
"""Sequence length for a network without a task. Some initialisers, such as chrono, depend on the length."""


def build(
    spec: str | Entry | Config, *, inputs: int | Sequence[int] | None = None, outputs: int | None = None,
    device: torch.device | str | None = None, dtype: torch.dtype | str | None = None, seed: int = 0, allow_large: bool = False,
) -> Network:  # fmt: skip
    """Return a freshly initialised network, in training mode.

    spec: a name of the registry, what `zoo.spec` returns for one, a Config of your own or, with `inputs` and `outputs`,
    `[bi][block][conv]CELL-LxH` of any cell, such as "lstm-2x32": L layers of H units whose last output the head reads
    (which excludes `biblock`: its top block has no last step).
    inputs: features of a time step, or the shape of an image, (channels, height, width). outputs: width of the head; 0 for a
    network without one, which returns what a head would read, such as the top layer's last output.
    device: where the network goes, "meta" included (default: a GPU that torch can use, else the CPU).
    dtype: of the parameters (default: float32).
    seed: a non-negative integer. The initial values come from it alone, not from torch's global generator, and are the same on
    every device.
    allow_large: build networks of more than 200 million parameters too.

    Building for a CPU turns on flush-to-zero (torch.set_flush_denormal). Raises UnknownNameError for an
    unknown name, RequestError for other invalid arguments, and SizeError for a large network before allocating memory.
    """
    if inputs is not None or outputs is not None:
        entry: object = _config(spec, inputs, outputs)
    else:
        if isinstance(spec, str) and spec not in registry.models() and spelt(spec):
            raise RequestError(
                f"{spec} is an architecture, not a registered model. Pass inputs=... and outputs=... too."
            )
        entry = registry.find(spec) if isinstance(spec, str) else spec
    config = entry.config if isinstance(entry, Entry) else entry
    if not isinstance(config, Config):
        raise RequestError(f"build takes a name of the registry, an Entry or a Config; got {shown(config)}.")
    if type(seed := plain(seed)) is not int or not 0 <= seed < 2**63:
        raise RequestError(f"A seed is an integer from 0 to 2**63 - 1; got {shown(seed)}.")
    target_dtype = resolve_dtype(dtype) or torch.float32
    network: Network = meta_network(config)
    if not allow_large:
        refuse_large(network, "; pass allow_large=True to build it")
    target = resolve_device(device, meta=True)
    if target.type == "cpu":
        flush_denormals()
    if target.type != "meta":
        network.to_empty(device="cpu")
        with one_thread(), torch.device("cpu"):  # whatever torch's default device is
            initialise(network, torch.Generator().manual_seed(seed))
    return network.to(device=target, dtype=target_dtype)


def spelt(name: str) -> Architecture | None:
    """Parse a name such as "lstm-2x32" (Architecture.from_name); None for another form. Raises RequestError for bad sizes."""
    try:
        return Architecture.from_name(name)
    except ValidationError as error:
        raise RequestError(f"{name} cannot be built: {faults(error)}") from error


def _config(name: object, inputs: int | Sequence[int] | None, outputs: int | None) -> Config:
    """Return the Config of the architecture `name` for `inputs` and `outputs`. Raises RequestError for invalid ones."""
    inputs, outputs = plain(inputs), plain(outputs)
    if not isinstance(name, str) or inputs is None or outputs is None:
        raise RequestError(
            '`inputs` and `outputs` go together, and only with an architecture such as "lstm-2x32". A registered model or a '
            "Config has its inputs and outputs already: leave both out."
        )
    architecture = spelt(name)
    if architecture is None:
        cells = [f"{cell}-2x32" for cell in ROWS]
        raise UnknownNameError(
            "architecture", name, cells, "Write CELL-LxH, such as lstm-2x32 for 2 layers of 32 units."
        )
    shape = tuple(map(plain, inputs)) if isinstance(inputs, list | tuple | torch.Size) else (inputs,)
    try:
        steps, readout = (1, "none") if architecture.cell in FEEDFORWARD else (STEPS, "last")
        interface = Interface.model_validate({"input": shape, "steps": steps, "outputs": outputs, "readout": readout})
        return Config(architecture=architecture, interface=interface)
    except ValidationError as error:
        raise RequestError(f"{name} cannot be built: {faults(error)}") from error
