"""Examples without time steps: the Pima diabetes data, and points on two circles, generated (Chen 2022, section 3.3)."""

import numpy
import torch

from ..errors import DataError
from .base import SEEDS, Split, SplitName, TaskData, split_by_hash
from .originals import named_files, read_verified, verify_generated

RADII = (1.0, 0.8)
"""Radii of class 0 and class 1: the defaults of scikit-learn's make_circles, which Chen 2022 uses."""
NOISE = 0.1
"""Largest noise on each coordinate; the noise is uniform. make_circles adds none by default."""


class Pima(TaskData):
    """Layout `rows`: eight measurements of a person, unchanged; class 1 is diabetes.

    A row of pima-indians-diabetes.csv has nine numbers; there is no header. Zeros in columns 2 to 6, which stand for missing
    values, are kept. Equal rows are in the same split.
    """

    layouts = ("rows",)

    def read(self, name: SplitName) -> Split:
        (file,) = named_files(self.dataset, 1)
        lines = read_verified(self.dataset, file).decode("ascii", "replace").split()
        try:
            table = torch.tensor([[float(number) for number in line.split(",")] for line in lines], dtype=torch.float32)
            features, labels = table.split([self.task.input[0], 1], 1)
        except (ValueError, RuntimeError, IndexError) as error:
            raise DataError(
                f"{self.dataset.title}: {file} has a row without nine numbers ({error}). Use the original file."
            ) from error
        selected = split_by_hash(lines, self.dataset)[name]
        return Split(features[selected], labels[selected, 0].long(), {file: self.dataset.sha256[file]})


class Circles(TaskData):
    """Layout `points`: (x, y) on a circle of radius 1 for class 0, or of radius 0.8 for class 1, with noise."""

    layouts = ("points",)

    def read(self, name: SplitName) -> Split:
        n = getattr(self.dataset, name)
        # the digest is of the random numbers, whose stream is frozen: sine and cosine may differ in the last bit elsewhere
        drawn = numpy.random.RandomState(SEEDS[name]).random_sample((n, 3)).astype("<f4")
        digests = verify_generated(self.dataset, name, drawn)
        angle, noise = torch.from_numpy(drawn).split([1, 2], 1)
        labels = torch.arange(n) % len(RADII)
        radius, angle = torch.tensor(RADII, dtype=torch.float32)[labels, None], 2 * torch.pi * angle
        points = radius * torch.cat([angle.cos(), angle.sin()], 1) + NOISE * (2 * noise - 1)
        return Split(points, labels, digests)
