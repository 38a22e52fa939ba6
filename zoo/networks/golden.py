"""Golden outputs: check.safetensors of a checkpoint, a small input with the logits that any machine must compute from it.

The outputs are computed in float64 by the plain scan, so they are those of the equations to the last digit that float32
has. What a network computes in float32, by any scan and on any device, must be within `tolerance` of them.
"""

import copy
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints import configs
from ..checkpoints.tensors import read_tensors, write_tensors
from ..errors import CheckpointError, first_line
from .base import ConfiguredModule

FILE = configs.GOLDEN
BATCH, STEPS, VALUES = 2, 1000, 20_000
"""The number of sequences, and the largest number of time steps and of input values in each."""
TOLERANCE = 1e-4
"""Largest allowed deviation of an output, relative to the largest output (at least 1)."""


def write(network: ConfiguredModule, path: Path) -> None:
    """Write the golden outputs of a network: input (batch, time, ...), its lengths, output, and tolerance."""
    x, lengths = example_input(network)
    tensors = {"input": x, "lengths": lengths, "output": _output(exact(network), x, lengths).float()}
    write_tensors(path, {**tensors, "tolerance": torch.tensor([TOLERANCE])})


def exact(network: ConfiguredModule) -> Any:
    """Return a copy of a network that computes its equations in float64 on the CPU, by the plain scan, in eval mode."""
    copied = copy.deepcopy(network).to(device="cpu", dtype=torch.float64).eval()
    if hasattr(copied, "backend"):
        setattr(copied, "backend", "plain")  # noqa: B010
    return copied


def example_input(network: ConfiguredModule) -> tuple[Tensor, Tensor]:
    """Return the input of the golden outputs: random numbers or tokens, (batch, time, ...), and two different lengths.

    The lengths are (0,) if there are no time steps.
    """
    interface, generator = network.interface, torch.Generator().manual_seed(0)
    steps = max(1, min(interface.steps, STEPS, VALUES // math.prod(interface.input)))
    lengths = torch.tensor([steps, max(1, steps // 2)])
    if interface.vocabulary is None:
        times = () if interface.readout == "none" else (steps,)
        x = torch.rand(BATCH, *times, *interface.input, generator=generator, dtype=torch.float32)
        return x, lengths if times else lengths[:0]
    x = torch.randint(1, interface.vocabulary, (BATCH, steps), generator=generator)
    if interface.form == "question":  # one length of the story and one of the question
        return x, torch.stack([lengths - lengths // 2, lengths // 2], 1)
    return x, lengths


def rounding(network: ConfiguredModule) -> float:
    """Return how far the outputs of a network are from those of its equations in float64, relative as in `deviation`.

    A network of which this exceeds TOLERANCE, because small differences grow from step to step, has no golden outputs.
    """
    x, lengths = example_input(network)
    return _relative(_output(network, x, lengths), _output(exact(network), x, lengths))


def deviation(network: ConfiguredModule, path: Path) -> tuple[float, float]:
    """Return how far a network's outputs are from the golden ones in `path`, and the tolerance.

    Both are relative to the largest output, or absolute if that is below 1. Raises CheckpointError for a file that does not
    fit the network.
    """
    tensors = read_tensors(path)
    if set(tensors) != {"input", "lengths", "output", "tolerance"} or tensors["tolerance"].shape != (1,):
        raise CheckpointError(
            f"{path} holds no golden outputs: its tensors must be input, lengths, output and tolerance."
        )
    expected = tensors["output"].double()
    try:
        output = _output(network, tensors["input"], tensors["lengths"])
    except (RuntimeError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path}: its input does not fit the network ({first_line(error)}).") from error
    if output.shape != expected.shape:
        raise CheckpointError(
            f"{path} belongs to a different network: its outputs have shape {tuple(expected.shape)}, not {tuple(output.shape)}."
        )
    return _relative(output, expected), float(tensors["tolerance"][0])


def _relative(output: Tensor, expected: Tensor) -> float:
    return float((output - expected).abs().max() / expected.abs().max().clamp(min=1.0))


@torch.inference_mode()
def _output(
    network: ConfiguredModule,
    x: Tensor,  # (batch, time, ...)
    lengths: Tensor,  # (batch,), or (0,) if there are none
) -> Tensor:
    """Return the network's outputs on the CPU in float64."""
    x = x.to(network.device, network.dtype) if x.is_floating_point() else x.to(network.device)
    return network(x, lengths.to(network.device) if lengths.numel() else None).cpu().double()
