"""Freezes networks: replaces every parametrized linear map by its matrix, for export and quantisation."""

import copy

import torch
from torch import nn

from ..cells.projections import Conv, Dense, Diagonal, Projection
from ..errors import CheckpointError, RequestError
from .base import refuse_computed_weights
from .layer import Direction
from .network import Network


@torch.no_grad()
def frozen(network: Network) -> Network:
    """Return a copy of a network on the CPU, in eval mode and without gradients, whose linear maps have plain matrices.

    Each parametrized matrix is computed in float64 and stored as the weight. A projection that is a product of rotations or
    Fourier transforms becomes a Dense. The copy of a network in float16 or bfloat16, which could not hold these matrices, is
    in float32. Raises RequestError for a network on the meta device, and for one whose weights hooks or parametrizations of
    torch.nn.utils compute.
    """
    if network.device.type == "meta":
        raise RequestError(
            f"{network.config.name} is on the meta device, where it has no weights. Load it onto another."
        )
    refuse_computed_weights(network)
    dtype = torch.promote_types(network.dtype, torch.float32)
    copied = copy.deepcopy(network).to("cpu", torch.float64).eval().requires_grad_(False)
    for direction in [module for module in copied.modules() if isinstance(module, Direction)]:
        plain = {
            (owner, name): _plain(projection, direction)
            for owner in direction.modules()
            for name, projection in owner.named_children()
            if isinstance(projection, Projection)
        }
        for (owner, name), projection in plain.items():
            setattr(owner, name, projection)
    return copied.to(dtype).requires_grad_(False).eval()


def check_finite(network: Network) -> None:
    """Raise CheckpointError if a network has a weight that is NaN or infinite."""
    for name, tensor in network.state_dict().items():
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{network.config.name}: {name} has NaN or infinite numbers. Take an earlier checkpoint, or train again with a lower "
                "learning rate."
            )


def _plain(projection: Projection, direction: Direction) -> Projection:
    """Return a projection without a parametrization that computes the same. `projection` itself may be changed in place."""
    if isinstance(projection, Dense | Conv | Diagonal):
        projection.weight, projection.parametrization = nn.Parameter(projection.matrix.contiguous()), None
        return projection
    # a special product leads from the states to the states, or is that of the input
    states = direction.cell.channels(direction.cell.states[0], direction.units)
    channels = projection.channels if projection is direction.input else states
    matrix = projection.product(torch.eye(channels, dtype=torch.float64), None).mT
    plain = Dense(tuple(matrix.shape), projection.bias is not None, projection.norm)
    plain.weight = nn.Parameter(matrix.contiguous())
    if plain.bias is not None:
        plain.bias = nn.Parameter(projection(torch.zeros(1, channels, dtype=torch.float64))[0].contiguous())
    return plain
