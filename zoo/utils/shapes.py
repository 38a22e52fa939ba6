"""Shapes of tensors."""

from torch import Tensor


def unsqueeze_to(x: Tensor, dims: int) -> Tensor:
    """Return x with axes of size 1 after its own, so that it has `dims` axes: (batch,) becomes (batch, 1, 1) for 3."""
    return x.reshape(*x.shape, *[1] * (dims - x.dim()))
