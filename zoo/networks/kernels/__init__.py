"""Faster scans for some architectures. The tests compare each of them with the plain scan of zoo.networks.layer."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ..layer import Layer, LayerInput, Scan

FUSED = {"cpu": "compiled", "cuda": "triton_scan"}
"""By type of device: the module of its fused scans, imported at the first use."""


def layer_scan(layers: "Sequence[Layer]", x: "LayerInput") -> "Scan | None":
    """Return the fused scan, of one layer at a time, that can run each of `layers` on x, or None if there is none.

    If x is a LazyEmbedding, the scan looks the vectors up itself.
    """
    scans = _fused_scans(x)
    if scans is None:
        return None
    planned = {direction: scans.supports(direction, x) for layer in layers for direction in layer.directions}
    if all(planned.values()):
        return lambda direction, *arguments: scans.scan(planned[direction], *arguments)
    from . import diagonal

    if all(diagonal.supports(direction, x) for direction in planned):
        return diagonal.scan
    return None


def last_step_scan(scan: "Scan") -> "Scan | None":
    """Return a cheaper scan that computes only the last step of what `scan` computes, or None if there is none."""
    from . import diagonal

    return diagonal.scan_last if scan is diagonal.scan else None


def stack_scan(layers: "Sequence[Layer]", x: "Tensor") -> Callable[..., Any] | None:
    """Return a fused scan that runs all `layers` in one call, without dropout between them, or None if none fits x.

    The arguments of the scan are x, (time, batch, features), the states of all layers, the lengths, and the number of steps
    after which gradients are truncated. It returns the top layer's outputs and the final states of all layers.
    """
    scans = _fused_scans(x)
    return scans.stack_scan(layers, x) if hasattr(scans, "stack_scan") else None


def _fused_scans(x: "LayerInput") -> Any:
    """Return the module of the fused scans for the device of x; None if there is none."""
    name = FUSED.get(x.device.type)
    try:
        return import_module(f"{__name__}.{name}") if name else None
    except ModuleNotFoundError as problem:
        if problem.name != "triton":
            raise
        return None
