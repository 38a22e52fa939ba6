"""Reads benchmarks/protocol.yaml: what is equal for every cell of the leaderboard. Does not import torch."""

from pathlib import Path

from pydantic import Field, ValidationError

from ..errors import RegistryError, faults
from ..registry import yaml
from ..registry.schema import Schedule, Seq, Spec

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "protocol.yaml"
"""In the repository; an installed package has no benchmarks."""


class Budget(Spec):
    """What is particular to one task: the batch size, the epochs and, if not the protocol's, the number of layers."""

    batch_size: int = Field(ge=1)
    epochs: int = Field(ge=1)
    layers: int | None = Field(default=None, ge=1)


class Protocol(Spec):
    """The settings that are the same for every cell."""

    parameters: int
    tolerance: float
    """By what share of `parameters` a network may have more or fewer."""
    layers: int
    rates: Seq[float]
    seeds: Seq[int]
    schedule: Schedule
    max_grad_norm: float
    options: dict[str, dict[str, int]] = {}
    """Options by cell. One that must divide the number of units restricts that number."""
    left_out: Seq[str] = ()
    """Cells that are not ranked."""
    tasks: dict[str, Budget]

    def layers_on(self, task: str) -> int:
        """Return the number of layers of every network on a task."""
        return self.tasks[task].layers or self.layers


def text() -> str:
    """Return the text of the protocol's file."""
    return FILE.read_text(encoding="utf-8")


def read() -> Protocol:
    """Return the protocol. Raises RegistryError if its file is invalid."""
    try:
        return Protocol.model_validate(yaml.parse(text()).content)
    except ValidationError as error:
        raise RegistryError(f"{FILE}: {faults(error)}") from error
    except yaml.YamlError as error:
        raise RegistryError(f"{FILE}{error.where}: {error}") from error
