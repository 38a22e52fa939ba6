"""Tensors that all cells of a class share: computed once for each device, and kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from ..utils.torch_internals import constant_result, is_functional

Key = tuple[Any, ...]
"""What `constant` is called with: (values, *arguments)."""
_KEPT: dict[tuple[Any, ...], Tensor] = {}  # by key and device
_GIVEN: ContextVar[Mapping[Key, Tensor]] = ContextVar("_GIVEN", default=MappingProxyType({}))


@constant_result
def constant(values: Callable[..., list[Any]], *arguments: float, device: torch.device) -> Tensor:
    """Return values(*arguments) as a tensor of integers or float64 numbers. It is kept for later calls, not while tracing.

    Dynamo does not look inside: it calls this function and takes the tensor for a constant of its graph.
    """
    if (passed := _GIVEN.get().get((values, *arguments))) is not None:
        return passed
    key = (values, *arguments, device)
    if (kept := _KEPT.get(key)) is not None:
        return kept
    numbers = _numbers(values, *arguments)
    with torch.inference_mode(False):  # the kept tensor outlives the caller's mode
        tensor = torch.tensor(numbers, device=device, dtype=None if isinstance(numbers[0], int) else _precise(device))
    if type(tensor) is Tensor and not is_functional(tensor) and not torch.compiler.is_compiling():
        _KEPT[key] = tensor
    return tensor


@contextmanager
def given(tensors: Mapping[Key, Tensor]) -> Iterator[None]:
    """Have `constant` return these tensors, for a loop of a graph, which sees only what it is given."""
    token = _GIVEN.set(tensors)
    try:
        yield
    finally:
        _GIVEN.reset(token)


@cache
def _numbers(values: Callable[..., list[Any]], *arguments: float) -> list[Any]:
    """Return values(*arguments), computed once for all devices and traces."""
    return values(*arguments)


def _precise(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64
