"""The data of the task `waves`. Replace `_waves` by a function that returns your own data as tensors."""

import hashlib

import torch
from torch import Tensor

from zoo.data.base import SEEDS, Split, SplitName, TaskData


class Waves(TaskData):
    """Sines, squares and sawteeth of random frequency and phase, with noise."""

    def read(self, name: SplitName) -> Split:
        """Return the split "train", "validation" or "test": inputs, (n, time), and their classes, (n,)."""
        waves, classes = _waves(getattr(self.dataset, name), self.task.steps, SEEDS[name])
        digest = hashlib.sha256(waves.numpy().tobytes()).hexdigest()  # results.json records which data were measured
        return Split(waves, classes, {f"waves-{name}": digest}, prepare=lambda raw: raw[..., None])  # (n, time, 1)


def _waves(n: int, steps: int, seed: int) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    classes = torch.randint(3, (n,), generator=random)
    cycles, phase = 2 + 3 * torch.rand(n, 1, generator=random), torch.rand(n, 1, generator=random)
    turns = (cycles * torch.arange(steps) / steps + phase) % 1
    kinds = torch.stack([torch.sin(2 * torch.pi * turns), torch.where(turns < 0.5, 1.0, -1.0), 2 * turns - 1])
    waves = kinds[classes, torch.arange(n)]
    return waves + 0.3 * torch.randn(n, steps, generator=random), classes
