"""The answer of a network to one example, such as a user's file: its most likely classes, or its values."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import RequestError
from ..networks.network import Network
from ..registry import load_registry


@dataclass(frozen=True)
class Classes:
    """The most likely classes, the likeliest first."""

    names: tuple[str, ...]
    probabilities: tuple[float, ...]
    """They add up to 1 over all classes, unless each class is a yes-or-no question of its own (target `binary`)."""


@dataclass(frozen=True)
class Values:
    """The values of a regression or a forecast."""

    values: tuple[float, ...]
    steps_ahead: tuple[int, ...] = ()
    """How many steps after the last input each value is, of a forecast; else ()."""


def no_head(network: Network) -> RequestError:
    """Return the error for a network that is to answer, but has no head."""
    return RequestError(f"{network.config.name} has no head to answer with. Give it one by Network.reset_head.")


@torch.no_grad()
def answer(network: Network, x: Tensor, lengths: Tensor | None = None, top: int = 5) -> Classes | Values:
    """Return a network's answer to one example, at its last step if it answers at every step.

    x: (1, time, *input), as `zoo.data.inputs.read_example` returns it with `lengths`. top: the largest number of classes.
    Raises RequestError for several examples, for a network without a head or with one that is not the config's, and if an
    output is not finite.
    """
    if len(x) != 1:
        raise RequestError(
            f"An answer is to one example, (1, time, ...); got {len(x)}. Pass x[i : i + 1], and so of lengths."
        )
    x = x.to(network.device, network.dtype if x.is_floating_point() else x.dtype)
    logits = network(x, lengths).float().cpu()[0]
    if not network.interface.outputs:
        raise no_head(network)
    if logits.shape[-1] != network.interface.outputs:
        raise RequestError(
            f"The head of {network.config.name} has {logits.shape[-1]} outputs, but its config {network.interface.outputs}. Replace "
            "a head by Network.reset_head."
        )
    last = logits if logits.dim() == 1 else logits[-1 if lengths is None else int(lengths[0]) - 1]
    if not last.isfinite().all():
        raise RequestError(
            f"The outputs of {network.config.name} for this input are infinite or NaN. Give smaller numbers."
        )
    # None for a network of the user's own, and for a head that is not the task's
    task = load_registry().all_tasks.get(network.config.task) if network.interface.classes is None else None
    if len(last) == 1 if task is None else task.target in ("value", "forecast"):
        return Values(tuple(last.tolist()), task.horizons if task is not None else ())
    is_binary = task is not None and task.target == "binary"
    probabilities, classes = (last.sigmoid() if is_binary else last.softmax(0)).topk(min(top, len(last)))
    return Classes(tuple(network.output_names[i] for i in classes.tolist()), tuple(probabilities.tolist()))
