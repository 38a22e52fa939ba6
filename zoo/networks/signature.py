"""Whether modules differ in nothing but the values of their weights, so that one can stand for the others."""

from functools import partial
from types import FunctionType
from typing import Any

from torch import Tensor, nn

MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))
"""Names of the attributes that every module has."""


def signature(module: nn.Module) -> tuple[object, ...]:
    """Return a key that modules have in common if they compute the same with the same weights.

    It holds a module's class, the shapes of its parameters and buffers, its other attributes, and the keys of its submodules.
    """
    weights = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    attributes = {k: v for k, v in vars(module).items() if k not in MODULE_ATTRIBUTES and v is not None}
    submodules = tuple((name, signature(child)) for name, child in module.named_children())
    return type(module), tuple((name, weight.shape) for name, weight in weights), _comparable(attributes), submodules


def _comparable(value: Any) -> object:
    """Return an object that can be hashed and is equal for attributes of the same meaning.

    A tensor, and what cannot be hashed, equals nothing.
    """
    if isinstance(value, dict):
        return dict, frozenset((k, _comparable(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(_comparable, value))
    if isinstance(value, partial):
        return value.func, _comparable(value.args), _comparable(value.keywords)
    if isinstance(value, FunctionType) and not (value.__closure__ or value.__defaults__ or value.__kwdefaults__):
        return value.__code__, id(value.__globals__)  # a lambda that every layer makes anew
    return object() if isinstance(value, Tensor) or type(value).__hash__ is None else value
