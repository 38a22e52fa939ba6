"""How large networks are: parameters and multiply-adds."""

import math
from functools import cache

from torch import nn

from .. import registry
from ..registry.lock import Counts
from .base import meta_network
from .network import Network


def parameters(network: nn.Module) -> int:
    """Return the number of trainable parameters; frozen embeddings do not count. The network may be on the meta device."""
    return sum(p.numel() for p in network.parameters() if p.requires_grad)


def multiply_adds(network: Network, steps: int | None = None) -> int:
    """Return the multiply-adds of the linear maps for one sequence of `steps` (default: the task's), head included.

    A map acts once per time step, and a convolution once per position of the image. Elementwise work is not counted, nor is
    making a map's matrix, which happens once per sequence.
    """
    interface = network.interface
    steps, image = steps or interface.steps, interface.input[1:]
    per_position = sum(projection.cost for projection in network.projections_per_step())
    head_calls = steps if interface.readout == "every" else 1
    neck = network.neck.multiply_adds(image) if network.config.architecture.head else 0
    head = network.head.weight.numel() if interface.outputs else 0
    return steps * math.prod(image) * per_position + head_calls * (neck + head)


@cache
def counts(name: str) -> Counts:
    """Return the size of a registered model, counted without allocating it."""
    network = meta_network(registry.find(name).config)
    return Counts(parameters=parameters(network), multiply_adds=multiply_adds(network))
