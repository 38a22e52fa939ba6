"""check.safetensors of a checkpoint: a small input, and what the network must make of it, wherever it runs.

The outputs are computed in float64 by the plain scan, so that they are those of the equations to the last digit that
float32 has; what a network gives in float32, by any scan and on any device, must be within `tolerance` of them.
"""

from pathlib import Path

import torch
from torch import Tensor

from ..checkpoints import configs
from ..errors import CheckpointError, first_line
from . import loading
from .builder import build
from .network import Network

FILE = configs.GOLDEN
BATCH, STEPS = 2, 1000
TOLERANCE = 1e-4
"""Most that an output may be off, as a part of the largest one (at least 1)."""


def write(network: Network, path: Path) -> None:
    """Write the file for a network: input (batch, time, ...), what it takes as lengths, output, and tolerance."""
    x, lengths = _input(network, torch.Generator().manual_seed(0))
    exact = build(network.config, device="cpu", dtype=torch.float64, allow_large=True).eval()
    exact.load_state_dict(network.state_dict())
    exact.backend = "plain"
    tensors = {"input": x, "lengths": lengths, "output": _output(exact, x, lengths).float()}
    loading.write_tensors(path, {**tensors, "tolerance": torch.tensor([TOLERANCE])})


def _input(network: Network, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random numbers or tokens, and two different lengths; none, (0,), where an example has no time steps."""
    interface = network.interface
    steps = min(interface.steps, STEPS)
    ends = torch.tensor([steps, max(1, steps // 2)])
    if interface.readout == "none":
        return torch.rand(BATCH, *interface.input, generator=generator), torch.zeros(0, dtype=torch.int64)
    if interface.vocabulary is None:
        return torch.rand(BATCH, steps, *interface.input, generator=generator), ends
    x = torch.randint(1, interface.vocabulary, (BATCH, steps), generator=generator)
    if interface.form == "question":  # lengths of the story and of the question
        return x, torch.stack([ends - ends // 2, ends // 2], 1)
    return x, ends


def deviation(network: Network, path: Path) -> tuple[float, float]:
    """How far the outputs of a network are from those of a check.safetensors, and how far they may be; both as parts of
    the largest output, or absolute where that is below 1. Raises CheckpointError for a file that does not fit."""
    tensors = loading.read_tensors(path)
    if set(tensors) != {"input", "lengths", "output", "tolerance"} or tensors["tolerance"].shape != (1,):
        raise CheckpointError(f"{path}: not a check of a network: it needs input, lengths, output and tolerance.")
    expected = tensors["output"].double()
    try:
        found = _output(network, tensors["input"], tensors["lengths"])
    except (RuntimeError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: its input does not fit the network ({first_line(error)}).") from error
    if found.shape != expected.shape:
        raise CheckpointError(f"{path}: has outputs of shape {tuple(expected.shape)} instead of {tuple(found.shape)}.")
    off = (found - expected).abs().max() / expected.abs().max().clamp(min=1.0)
    return float(off), float(tensors["tolerance"][0])


@torch.inference_mode()
def _output(network: Network, x: Tensor, lengths: Tensor) -> Tensor:
    """Outputs in float64."""
    x = x.to(network.device, network.dtype) if x.is_floating_point() else x.to(network.device)
    return network(x, lengths.to(network.device) if lengths.numel() else None).cpu().double()
