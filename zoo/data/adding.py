"""The adding problem (Hochreiter & Schmidhuber 1997), generated: the sum of the two numbers that are marked.

Hu et al. 2018, section 3.1: uniform numbers in [0, 1] and a mask that marks two random positions; 100,000 training and
10,000 test sequences. Numpy's RandomState, whose stream is frozen, makes the same bytes everywhere, and the registry
pins them.
"""

import hashlib

import numpy
import torch
from torch import Tensor

from ..errors import DataError
from ..registry.schema import Dataset, Task
from .base import SEEDS, Split, SplitName, TaskData, is_locked, refuse_layout


class Adding(TaskData):
    """Layout `value-mask`: steps of (number, 1 where it is marked, else 0); the target is one value."""

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        refuse_layout(task, dataset, "value-mask")

    def read(self, name: SplitName) -> Split:
        n, steps = getattr(self.dataset, name), self.task.steps
        source = numpy.random.RandomState(SEEDS[name] + 10 * steps)
        numbers = source.random_sample((n, steps)).astype("<f4")
        first, gap = (source.random_sample((2, n)) * [[steps], [steps - 1]]).astype("<i4")
        second = (first + 1 + gap) % steps  # any other position, all equally likely
        raw = numpy.column_stack([numbers, first, second]).astype("<f4")
        key, digest = f"{steps}-{name}", hashlib.sha256(raw.tobytes()).hexdigest()
        if not is_locked(self.dataset, key, digest):
            raise DataError(f"The adding problem {key} was generated otherwise than pinned (sha256 differs).")
        each = numpy.arange(n)
        targets = torch.from_numpy(numbers[each, first] + numbers[each, second])
        return Split(torch.from_numpy(raw), targets[:, None], {key: digest}, _prepare)


def _prepare(raw: Tensor) -> Tensor:
    """(batch, time + 2), numbers and then the two marked positions, to (batch, time, 2)."""
    numbers, marked = raw[:, :-2], raw[:, -2:].long()
    return torch.stack([numbers, torch.zeros_like(numbers).scatter_(1, marked, 1.0)], 2)
