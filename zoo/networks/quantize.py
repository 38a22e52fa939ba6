"""Rounds weights to 8-bit integers with one scale for each row of a matrix, as exported int8 files store them."""

import torch
from torch import Tensor

from ..errors import RequestError, shown
from ..utils.shapes import unsqueeze_to
from .frozen import check_finite, frozen
from .network import Network

QUANTIZE = ("int8",)
"""The words that `load` and `export` take for `quantize`."""
LARGEST = 127


def quantize_rows(
    weight: Tensor,  # (rows, ...)
) -> tuple[Tensor, Tensor]:
    """Return a weight as torch.int8, and the scale of each row, (rows,): weight ~ integers * scale.

    scale = max |w| / 127 over the row (1 for a row of zeros); a half is rounded to the even integer.
    """
    largest = weight.flatten(1).abs().amax(1)
    scale = torch.where(largest > 0, largest / LARGEST, 1)
    integers = torch.round(weight / unsqueeze_to(scale, weight.dim())).clamp(-LARGEST, LARGEST)
    return integers.to(torch.int8), scale


def dequantize_rows(
    integers: Tensor,  # (rows, ...)
    scale: Tensor,  # (rows,)
) -> Tensor:
    """Return integers * scale, in the dtype of the scale."""
    return integers.to(scale.dtype) * unsqueeze_to(scale, integers.dim())


@torch.no_grad()
def quantized(network: Network) -> Network:
    """Return a frozen copy of a network (see `frozen`) whose weights are rounded to the values of 8-bit weights.

    Every tensor of two dimensions or more is rounded row by row: projections, embedding and head; vectors stay. Raises
    CheckpointError for weights that are not finite.
    """
    copied = frozen(network)
    check_finite(network)
    for parameter in copied.parameters():
        if parameter.dim() > 1:
            parameter.copy_(dequantize_rows(*quantize_rows(parameter.float())))  # float16 lacks small scales
    return copied


def check_quantize(quantize: str | None) -> None:
    """Raise RequestError unless `quantize` is None or one of QUANTIZE."""
    if quantize is not None and quantize not in QUANTIZE:
        raise RequestError(f"quantize is {shown(quantize)}; leave it out, or give {' or '.join(QUANTIZE)}.")
