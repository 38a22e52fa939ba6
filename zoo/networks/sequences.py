"""Padded batches of sequences: lengths that are checked, masks, means over time. Batch first."""

from collections.abc import Sequence

import torch
from torch import Tensor


def valid_lengths(
    lengths: Tensor | Sequence[int] | None,  # (batch, *parts), integers
    x: Tensor,  # (batch, time, ...)
    *parts: int,
) -> Tensor | None:
    """Return `lengths` as torch.int64 on the device of x; None if they are invalid.

    Valid lengths are integers from 1 on, and those of one sequence add up to at most `time`.
    """
    try:
        tensor = torch.as_tensor(lengths, device=x.device)
    except (TypeError, ValueError, RuntimeError):
        return None
    if tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex():
        return None
    if tensor.shape != (*x.shape[:1], *parts):
        return None
    tensor = tensor.long()
    if torch.compiler.is_exporting():  # they have no values yet
        return tensor
    fits = tensor.min() >= 1 and tensor.reshape(len(x), -1).sum(1).max() <= x.shape[1]
    return tensor if fits else None


def mask(
    x: Tensor,  # (batch, time, ...)
    lengths: Tensor | None,  # (batch,)
) -> Tensor:
    """Return x with zeros beyond each sequence's end, whatever is there, NaN included."""
    if lengths is None:
        return x
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, 0)


def sum_over_time(
    x: Tensor,  # (batch, time, ...), zero beyond each sequence's end
    lengths: Tensor | None,  # (batch,)
) -> tuple[Tensor, Tensor]:
    """Return the sum over time, (batch, ...), and the number of steps in it, (batch,), in float32 or more."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    total = x.sum(1, dtype=dtype)
    return total, total.new_full(x.shape[:1], x.shape[1]) if lengths is None else lengths.to(dtype)


def mean_of_sum(
    total: Tensor,  # (batch, ...)
    count: Tensor,  # (batch,)
) -> Tensor:
    """Return total / count, (batch, ...)."""
    return total / count.reshape(-1, *[1] * (total.dim() - 1))
