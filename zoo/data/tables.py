"""Examples without time steps: the Pima diabetes data, and points on two circles, generated (Chen 2022, section 3.3)."""

import hashlib

import numpy
import torch
from torch import Tensor

from ..errors import DataError
from ..registry.schema import Dataset, Task
from .base import SEEDS, Split, SplitName, TaskData, is_locked, read_verified, refuse_layout, split_by_hash

RADII = (1.0, 0.8)  # of class 0 and class 1; scikit-learn's make_circles, which the thesis calls, has these by default
SPREAD = 0.1  # of the uniform noise on each coordinate; there, without an argument, none


class Pima(TaskData):
    """Layout `rows`: eight measurements of a person, as they are, and whether diabetes was found.

    A row of pima-indians-diabetes.csv is nine numbers without a header. Zeros of columns 2 to 6 stand for values that
    are missing, and stay. Equal rows are never parted between the splits.
    """

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        refuse_layout(task, dataset, "rows")

    def read(self, name: SplitName) -> Split:
        (file,) = self.dataset.files
        lines = read_verified(self.dataset, file).decode("ascii", "replace").split()
        try:
            table = torch.tensor([[float(number) for number in line.split(",")] for line in lines])
            features, labels = table.split([self.task.input[0], 1], 1)
        except (ValueError, RuntimeError, IndexError) as error:
            raise DataError(f"{self.dataset.title}: {file} has not nine numbers a row ({error}).") from error
        chosen = split_by_hash(lines, self.dataset)[name]
        return Split(features[chosen], labels[chosen, 0].long(), {file: self.dataset.sha256[file]}, _as_it_is)


class Circles(TaskData):
    """Layout `points`: (x, y) on a circle of radius 1, class 0, or inside it on one of 0.8, class 1, with noise."""

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        refuse_layout(task, dataset, "points")

    def read(self, name: SplitName) -> Split:
        n = getattr(self.dataset, name)
        # RandomState's stream is frozen; what is made of it by sine and cosine may differ in the last bit
        drawn = numpy.random.RandomState(SEEDS[name]).random_sample((n, 3)).astype("<f4")
        digest = hashlib.sha256(drawn.tobytes()).hexdigest()
        if not is_locked(self.dataset, name, digest):
            raise DataError(f"The {name} points on circles were generated otherwise than pinned (sha256 differs).")
        angle, noise = torch.from_numpy(drawn).split([1, 2], 1)
        labels = torch.arange(n) % len(RADII)
        radius, angle = torch.tensor(RADII)[labels, None], 2 * torch.pi * angle
        points = radius * torch.cat([angle.cos(), angle.sin()], 1) + SPREAD * (2 * noise - 1)
        return Split(points, labels, {name: digest}, _as_it_is)


def _as_it_is(raw: Tensor) -> Tensor:
    """(batch, features)."""
    return raw
