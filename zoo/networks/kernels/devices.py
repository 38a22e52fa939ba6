"""Which modules have the fused and linear scans for which type of device. They are imported at the first use."""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

FUSED = {"cpu": "compiled", "cuda": "triton_scan"}
"""By type of device: the module of its scans of whole cells."""

RECURRENCES = {"cpu": "compiled_diagonal", "cuda": "triton_diagonal"}
"""By type of device: the module that computes c_t = a_t c_{t-1} + b_t for diagonal.py, the scan of all cells that are linear in
their state. It runs a cell that FUSED has no scan for, or none with the cell's options."""

OUTER = {"cpu": "compiled_outer"}
"""By type of device: the module that computes the states that are matrices for outer.py."""


def device_module(modules: Mapping[str, str], device: "torch.device") -> Any:
    """Return the one of `modules`, names by type of device, that is for `device`; None if there is none.

    There is none for a GPU if Triton is not installed.
    """
    name = modules.get(device.type)
    try:
        return import_module(f".{name}", __package__) if name else None
    except ModuleNotFoundError as problem:
        if problem.name != "triton":
            raise
        return None
