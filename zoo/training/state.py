"""The stored state of a training run: one safetensors file with all that it takes to go on to the same result."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from ..checkpoints import results
from ..checkpoints.tensors import read_tensors, write_tensors
from ..errors import CheckpointError, TrainingError
from ..registry.schema import Config, Recipe

FILE = "training.safetensors"
PROCESSES = "number of processes"


@dataclass(frozen=True)
class State:
    """Where a run stands after a step."""

    identity: Mapping[str, Any]
    """The settings that must be the same when the run is continued; see `changed_setting`."""
    step: int
    """Number of updates made."""
    seconds: float
    """Time spent on training."""
    sums: Tensor
    """(4,), float64: loss, metric, targets and gradient norm, summed over the current epoch."""
    history: Sequence[results.Epoch]
    weights_sha256: str | None
    """Digest of the best weights so far."""
    scaler: Mapping[str, Any] | None
    """State of fp16's gradient scaler."""
    network: Mapping[str, Tensor]
    optimizer: Mapping[int, Mapping[str, Tensor]]
    """Moments and the like, by the index of the parameter."""

    def write(self, path: Path) -> None:
        """Replace the state in `path` atomically."""
        facts = {
            "identity": self.identity, "step": self.step, "seconds": self.seconds, "scaler": self.scaler,
            "history": [row.model_dump() for row in self.history], "weights": self.weights_sha256,
        }  # fmt: skip
        tensors = {f"network.{name}": _on_cpu(value) for name, value in self.network.items()}
        for index, slots in self.optimizer.items():
            tensors |= {f"optimizer.{index}.{name}": _on_cpu(value) for name, value in slots.items()}
        tensors["sums"] = self.sums
        tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        write_tensors(path, tensors)

    @classmethod
    def read(cls, path: Path) -> "State":
        """Read the state in `path`. Raises TrainingError for a file that is damaged or has another layout."""
        try:
            tensors = read_tensors(path)
            facts = json.loads(bytes(tensors["facts"].tolist()))
            optimizer: dict[int, dict[str, Tensor]] = {}
            for key, value in _below("optimizer.", tensors).items():
                index, _, slot = key.partition(".")
                optimizer.setdefault(int(index), {})[slot] = value
            return cls(
                identity=facts["identity"], step=facts["step"], seconds=facts["seconds"], sums=tensors["sums"],
                history=[results.Epoch(**row) for row in facts["history"]], weights_sha256=facts.get("weights"),
                scaler=facts["scaler"], network=_below("network.", tensors), optimizer=optimizer,
            )  # fmt: skip
        except CheckpointError as error:
            raise TrainingError(f"{error} Remove {path.parent} to begin the run again.") from error
        except (KeyError, ValueError, TypeError) as error:  # another program or version wrote it
            raise not_a_state(path) from error


def not_a_state(path: Path) -> TrainingError:
    """The error for a file that is no state of the run in its folder."""
    return TrainingError(f"{path} is not the state of a run. Remove {path.parent} to begin it again.")


def identity(
    config: Config, recipe: Recipe, digests: Mapping[str, str], examples: int, processes: int
) -> dict[str, Any]:
    """The settings that must be the same when a run is continued, as JSON has them."""
    return {
        "config": config.model_dump(mode="json"),
        "recipe": recipe.settings,
        "data": {**digests, "examples": examples},
        PROCESSES: {"processes": processes},
    }


def changed_setting(current: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """The first setting in which two identities differ, None if they are equal.

    An option that the stored one does not mention had its default, and so had the number of processes the current one.
    """
    validators: dict[str, Callable[[Any], Any]] = {"config": Config.model_validate, "recipe": Recipe.model_validate}
    stored = {PROCESSES: current[PROCESSES], **stored}
    for setting, value in current.items():
        validate = validators.get(setting, dict)
        try:
            if validate(stored[setting]) != validate(value):
                return setting
        except (KeyError, ValidationError):  # another version wrote it
            return setting
    return None


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _on_cpu(value: Any) -> Tensor:
    return torch.as_tensor(value).detach().cpu().contiguous()
