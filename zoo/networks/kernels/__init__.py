"""Faster scans for some architectures. The tests compare each of them with the plain scan of zoo.networks.layer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .devices import FUSED, device_module

if TYPE_CHECKING:
    from torch import Tensor

    from ..layer import Layer, LayerInput, Scan


def layer_scan(layers: "Sequence[Layer]", x: "LayerInput") -> "Scan | None":
    """Return the fused scan, of one layer at a time, that can run each of `layers` on x, or None if there is none.

    If x is a LazyEmbedding, the scan looks the vectors up itself.
    """
    directions = [direction for layer in layers for direction in layer.directions]
    scans = device_module(FUSED, x.device)
    planned = {} if scans is None else {direction: scans.supports(direction, x) for direction in directions}
    if planned and all(planned.values()):
        return lambda direction, *arguments: scans.scan(planned[direction], *arguments)
    from . import diagonal, outer

    for recurrence in (diagonal, outer):
        if all(recurrence.supports(direction, x) for direction in directions):
            return recurrence.scan
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
    scans = device_module(FUSED, x.device)
    return scans.stack_scan(layers, x) if hasattr(scans, "stack_scan") else None
