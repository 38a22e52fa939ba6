"""The state of a training run, stored in one safetensors file with everything that is needed to continue the run exactly."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from ..checkpoints import results
from ..checkpoints.tensors import read_tensors, write_tensors
from ..data.base import Split
from ..errors import CheckpointError, RequestError, TrainingError
from ..registry.schema import Config, Recipe

FILE = "training.safetensors"
PROCESSES, VALIDATION = "number of processes", "validation data"


@dataclass(frozen=True)
class State:
    """The state of a run after `step` updates of the weights."""

    identity: Mapping[str, Any]
    """The settings with which the run must be continued; see `changed_setting`."""
    step: int
    seconds: float
    """Training time so far, in seconds."""
    sums: Tensor
    """(4,), float64: loss, metric, number of targets and gradient norm, summed over the current epoch."""
    history: Sequence[results.Epoch]
    weights_sha256: str | None
    """The sha256 of model.safetensors, the best weights so far; None before the first epoch ends."""
    scaler: Mapping[str, Any] | None
    """State of fp16's gradient scaler; None for other precisions."""
    network: Mapping[str, Tensor]
    optimizer: Mapping[int, Mapping[str, Tensor]]
    """The optimizer's tensors, such as moments, by the index of the parameter and then by name."""
    average: Mapping[str, Tensor] = field(default_factory=dict)
    """The state of the moving average of the weights; empty if the recipe has none."""
    carried: Sequence[Tensor] = ()
    """The tensors of the network's state after the last batch of a stream (Split.stream), layer by layer; else empty."""

    def write(self, path: Path) -> None:
        """Write the state to the file `path`, replacing it atomically."""
        facts = {
            "identity": self.identity, "step": self.step, "seconds": self.seconds, "scaler": self.scaler,
            "history": [row.model_dump() for row in self.history], "weights": self.weights_sha256,
        }  # fmt: skip
        named = {f"network.{name}": value for name, value in self.network.items()}
        named |= {f"average.{name}": value for name, value in self.average.items()}
        for index, slots in self.optimizer.items():
            named |= {f"optimizer.{index}.{name}": value for name, value in slots.items()}
        tensors = {name: torch.as_tensor(value).detach().cpu().contiguous() for name, value in named.items()}
        tensors |= {f"carried.{i}": value.cpu().contiguous() for i, value in enumerate(self.carried)}
        tensors["sums"] = self.sums
        tensors["facts"] = torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)
        write_with_digest(path, tensors)

    @classmethod
    def read(cls, path: Path) -> "State":
        """Return the state in the file `path`. Raises TrainingError if it is damaged or lacks a value."""
        try:
            # copies, since a file's tensors lie at any address, and products of unaligned numbers round differently
            tensors = {name: tensor.clone() for name, tensor in read_tensors(path).items()}
            if not torch.equal(tensors.pop("sha256"), _digest(tensors)):
                raise CheckpointError(f"{path} is damaged: its content does not have the stored digest (sha256).")
            facts = json.loads(tensors["facts"].numpy().tobytes())
            optimizer: dict[int, dict[str, Tensor]] = {}
            for key, value in _below("optimizer.", tensors).items():
                index, _, slot = key.partition(".")
                optimizer.setdefault(int(index), {})[slot] = value
            carried = _below("carried.", tensors)
            return cls(
                identity=facts["identity"], step=facts["step"], seconds=facts["seconds"], sums=tensors["sums"],
                history=[results.Epoch(**row) for row in facts["history"]], weights_sha256=facts.get("weights"),
                scaler=facts["scaler"], network=_below("network.", tensors), optimizer=optimizer,
                average=_below("average.", tensors), carried=[carried[str(i)] for i in range(len(carried))],
            )  # fmt: skip
        except CheckpointError as error:
            raise TrainingError(f"{error} Remove {path.parent} to begin the run again.") from error
        except (KeyError, ValueError, TypeError) as error:  # another program or version wrote it
            raise not_a_state(path) from error


def write_with_digest(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors and their digest, which State.read checks, to `path` atomically."""
    content = {name: tensor for name, tensor in tensors.items() if name != "sha256"}
    write_tensors(path, {**content, "sha256": _digest(content)})


def _digest(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the SHA-256 of tensors and their names, (32,), uint8."""
    content = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        content.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return torch.frombuffer(bytearray(content.digest()), dtype=torch.uint8)


def not_a_state(path: Path) -> TrainingError:
    """Return the error for a file, `path`, that is not the state of the run in the file's folder."""
    return TrainingError(f"{path} is not the state of a run. Remove {path.parent} to begin the run again.")


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, by their names without the prefix."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def identity(config: Config, recipe: Recipe, train: Split, validation: Split, processes: int) -> dict[str, Any]:
    """Return the settings with which a run must be continued, as JSON values. processes: the number of processes."""
    return {
        "config": config.model_dump(mode="json"), "recipe": recipe.settings, "data": {**train.digests, "examples": len(train)},
        VALIDATION: {**validation.digests, "examples": len(validation)}, PROCESSES: {"processes": processes},
    }  # fmt: skip


def difference(setting: str, current: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """Return in words how the setting named `setting` differs in `stored`, such as `another recipe (seed 0 instead of 5)`.

    current, stored: what `identity` returned now, and for the run to continue.
    """
    before, now = stored.get(setting), current[setting]
    title = f"{'other' if setting in ('data', VALIDATION) else 'another'} {setting}"
    if not isinstance(before, Mapping):
        return title
    changes = [
        f"{key} {before.get(key)} instead of {now.get(key)}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    ]
    text = ", ".join(changes)
    return f"{title} ({text})" if changes and len(text) < 200 else title


def require_same(folder: Path, current: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raise RequestError unless the run in `folder` was started with the settings `current`. stored: those of its state."""
    if setting := changed_setting(current, stored):
        started = difference(setting, current, stored)
        raise RequestError(
            f"{folder} has a run that was started with {started}. Choose another --out, or repeat the command that began it."
        )


def changed_setting(current: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """Return the name of the first setting that differs between what `identity` returned now and for a stored run; else None.

    An older version of rnnzoo may have written `stored`. Options that are missing in `stored` had their default values; missing
    validation data and a missing number of processes count as equal.
    """
    validators: dict[str, Callable[[Any], Any]] = {"config": Config.model_validate, "recipe": Recipe.model_validate}
    stored = {VALIDATION: current[VALIDATION], PROCESSES: current[PROCESSES], **stored}
    for setting, value in current.items():
        validate = validators.get(setting, dict)
        try:
            if validate(stored[setting]) != validate(value):
                return setting
        except (KeyError, ValidationError):  # another version wrote it
            return setting
    return None
