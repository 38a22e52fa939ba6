"""The adding problem (Hochreiter & Schmidhuber 1997), generated: the target is the sum of the two marked numbers.

Hu et al. 2018, section 3.1: uniform numbers in [0, 1] and a mask that marks two random positions; 100,000 training and
10,000 test sequences. numpy's RandomState, whose stream is frozen, generates the same numbers on every machine;
cards/lock.json has their digests.
"""

import numpy
import torch
from torch import Tensor

from .base import SEEDS, Split, SplitName, TaskData
from .originals import verify_generated


class Adding(TaskData):
    """Layout `value-mask`. x: (batch, time, 2), a number and 1 if it is marked, else 0. y: (batch, 1), the sum."""

    layouts = ("value-mask",)

    def read(self, name: SplitName) -> Split:
        n, steps = getattr(self.dataset, name), self.task.steps
        random = numpy.random.RandomState(SEEDS[name] + 10 * steps)
        numbers = random.random_sample((n, steps)).astype("<f4")
        first, gap = (random.random_sample((2, n)) * [[steps], [steps - 1]]).astype("<i4")
        second = (first + 1 + gap) % steps  # any other position, all equally likely
        raw = numpy.column_stack([numbers, first, second]).astype("<f4")
        digests = verify_generated(self.dataset, f"{steps}-{name}", raw)
        rows = numpy.arange(n)
        targets = torch.from_numpy(numbers[rows, first] + numbers[rows, second])
        return Split(torch.from_numpy(raw), targets[:, None], digests, _prepare)


def _prepare(raw: Tensor) -> Tensor:
    """Turn raw, (batch, time + 2), the numbers followed by the two marked positions, into x, (batch, time, 2)."""
    numbers, marked = raw[:, :-2], raw[:, -2:].long()
    return torch.stack([numbers, torch.zeros_like(numbers).scatter_(1, marked, 1.0)], 2)
