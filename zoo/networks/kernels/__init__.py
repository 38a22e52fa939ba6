"""Faster scans for some architectures; each is held equal to the plain scan of zoo.networks.layer by the tests."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ..layer import Layer, LayerInput, Scan

FUSED = {"cpu": "compiled", "cuda": "triton_scan"}
"""The module with the fused scans for a kind of device, imported when a tensor lies there."""


def layer_scan(layers: "Sequence[Layer]", x: "LayerInput") -> "Scan | None":
    """The fused scan that can run every one of these layers, one at a time, on x; None where there is none.

    Of Rows, one that looks the vectors up itself.
    """
    scans = _scans(x)
    if scans and all(scans.supports(direction, x) for layer in layers for direction in layer.directions):
        return scans.scan
    return None


def stack_scan(layers: "Sequence[Layer]", x: "Tensor") -> Callable[..., Any] | None:
    """The fused scan that can run these layers on x together, nothing between them; None where there is none."""
    scans = _scans(x)
    return scans.scan_stack if scans and hasattr(scans, "scan_stack") and scans.supports_stack(layers, x) else None


def _scans(x: "LayerInput") -> Any:
    name = FUSED.get(x.device.type)
    try:
        return import_module(f"{__name__}.{name}") if name else None
    except ModuleNotFoundError as problem:
        if problem.name != "triton":
            raise
        return None
