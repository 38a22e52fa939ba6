"""What a task gives training and evaluation: splits of raw examples that become (x, y) a batch at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..specs import Dataset, Task

SplitName = Literal["train", "validation", "test"]
IGNORED = -100  # target of a time step that has none


@dataclass(frozen=True)
class Split:
    """Examples of one split, kept in the compact form they are stored in.

    raw: (n, ...), any dtype; targets: classes, (n,), or (n, time) where every step has one, IGNORED where it has none,
    or values, (n, outputs) or (n, time, outputs), NaN where there is none; lengths: (n,) or None; digests: sha256 of every original file the split came from; prepare: raw batch to x, (batch, time, *input).
    """

    raw: Tensor
    targets: Tensor
    digests: dict[str, str]
    prepare: Callable[[Tensor], Tensor]
    lengths: Tensor | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def batch(self, indices: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor | None]:
        """x, y and lengths of the examples at `indices`, on `device`."""
        lengths = None if self.lengths is None else self.lengths[indices].to(device)
        return self.prepare(self.raw[indices].to(device)), self.targets[indices].to(device), lengths


class TaskData(ABC):
    """One dataset family; constructed with a task of the registry and its dataset."""

    def __init__(self, task: Task, dataset: Dataset):
        self.task, self.dataset = task, dataset

    @abstractmethod
    def split(self, name: SplitName) -> Split:
        """Read, verify and return a split. Raises DataError if a file is missing or is not the pinned one."""
