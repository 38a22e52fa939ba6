"""Times between the inputs of a sequence, for cells that take irregular samples."""

import torch
from torch import Tensor

from ..cells.properties import cells_with
from ..errors import RequestError
from ..utils.torch_internals import is_mapped
from .layer import Direction
from .network import is_strided, shape_text


def checked_gaps(dt: Tensor, direction: Direction, cell: str, shape: torch.Size, lengths: Tensor | None) -> Tensor:
    """Return dt, the times between inputs, on the device of the weights of `direction`, with 1 beyond each sequence's end.

    cell: the cell's name. shape: (batch,) or (batch, time). lengths: (batch,). Raises RequestError if the cell does not use
    dt, or if dt has another shape or is not positive and finite, also in the dtype of the weights. Within
    torch.func.vmap and an export the values are not checked.
    """
    if not direction.cell.uses_time_gaps:
        raise RequestError(
            f"{cell} takes no dt. Cells that use the time between inputs: {', '.join(sorted(cells_with('time-gaps')))}."
        )
    odd = not isinstance(dt, Tensor) or not is_strided(dt) or dt.is_meta or dt.dtype == torch.bool or dt.is_complex()
    if odd or dt.shape != shape:
        got = f"{shape_text(dt)} of {dt.dtype}" if isinstance(dt, Tensor) else type(dt).__name__
        raise RequestError(f"dt must be a dense tensor of numbers of shape {tuple(shape)}; got {got}.")
    dt = dt.to(direction.input.weight.device)
    if lengths is not None:
        dt = torch.where(torch.arange(shape[1], device=dt.device) < lengths[:, None], dt, 1)
    if torch.compiler.is_exporting() or is_mapped(dt):
        return dt
    dtype = direction.input.weight.dtype
    if not bool(((dt > 0) & dt.to(dtype).isfinite()).all()):
        raise RequestError(
            f"dt must be positive and finite in {dtype}; got values from {float(dt.min()):g} to {float(dt.max()):g}."
        )
    return dt
