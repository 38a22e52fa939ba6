"""Devices and dtypes that a user names."""

import torch

from ..errors import RequestError, first_line


def resolve_device(device: torch.device | str | None, meta: bool = False) -> torch.device:
    """Return `device` if torch can use it; for None a GPU that torch can use, else the CPU.

    meta: allow the meta device, which has no values. Raises RequestError.
    """
    if device is None:
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        chosen = torch.device(device)
        if chosen.type != "meta":
            torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        raise RequestError(f"Device {str(device)!r} cannot be used: {first_line(error)}") from error
    if chosen.type == "meta" and not meta:
        raise RequestError("Device 'meta' cannot be used: it has no numbers to compute with.")
    return chosen


def resolve_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Return a dtype of parameters, given itself or its name, such as "float16"; None for None. Raises RequestError."""
    resolved = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if dtype is not None and resolved not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise RequestError(
            f"Parameters cannot be of dtype {dtype!r}; they can be of float32, bfloat16, float16 or float64."
        )
    return resolved
