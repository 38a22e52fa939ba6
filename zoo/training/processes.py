"""How the processes of one run compute together: accelerate.Accelerator, or OneProcess in its place."""

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import MissingExtraError, TrainingError
from ..networks.devices import resolve_device
from ..registry.schema import Recipe


def make_accelerator(recipe: Recipe, device: str | None) -> Any:
    """The accelerate.Accelerator of a run, with the recipe's precision, on `device` (default: the best there is).

    Raises MissingExtraError without accelerate, and TrainingError if the device cannot compute in that precision.
    """
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise MissingExtraError("accelerate", "train") from error
    chosen = resolve_device(device)
    if not torch.distributed.is_initialized():
        # an earlier run of this process may have had another precision or device
        AcceleratorState._reset_state(reset_partial_state=True)
    if chosen.index is not None:
        torch.accelerator.set_device_index(chosen.index)
    accelerator = Accelerator(mixed_precision=recipe.precision, cpu=chosen.type == "cpu")
    if recipe.precision != "no" and not accelerator.native_amp:  # it would go on in full precision
        raise TrainingError(
            f"Precision {recipe.precision!r} is not available on {chosen}. Choose another device or recipe."
        )
    if recipe.batch_size % accelerator.num_processes:
        raise TrainingError(
            f"A batch of {recipe.batch_size} cannot be shared equally by {accelerator.num_processes} processes."
        )
    return accelerator


class OneProcess:
    """The part of accelerate.Accelerator that a training step uses, for one process in full precision."""

    num_processes = 1
    scaler = None

    def prepare(self, *parts: Any) -> tuple[Any, ...]:
        return parts

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor

    def backward(self, loss: Tensor) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: Any, max_norm: float) -> Tensor:
        return nn.utils.clip_grad_norm_(parameters, max_norm)
