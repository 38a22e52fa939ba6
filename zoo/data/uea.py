"""Small multivariate series of the UEA archive, to classify: speakers by their vowels, words by the movement of tongue and
lips, activities by a watch's sensors.

The .npz of each dataset has, for train and test, the series end to end in `X`, (steps, features), their `offsets`, and the
class of each in `y`. The training part and the test part are those of the archive.
"""

import numpy
import torch
from numpy.typing import NDArray

from ..errors import DataError
from .base import Split, SplitName, TaskData
from .originals import read_arrays


class UEA(TaskData):
    """Layout `published`: the test split is the archive's; `dataset.validation` of its training series are for validation.

    Each class has the same number of validation series, k, evenly spaced among its n training series in the order of the
    archive: series floor((i + 1/2) n / k) for i = 0 to k - 1.
    """

    layouts = ("published",)

    def read(self, name: SplitName) -> Split:
        part = "test" if name == "test" else "train"
        values, offsets, classes = read_arrays(self.dataset, f"{part}_X", f"{part}_offsets", f"{part}_y")
        if values.ndim != 2 or values.shape[1:] != self.task.input or offsets[-1] != len(values):
            raise DataError(
                f"{self.dataset.title}: the series are not those of {self.task.title}: X is {values.shape}, but should be "
                f"(steps, {self.task.input[0]}) with as many steps as the offsets say. Use the original file."
            )
        held_out = self._held_out(classes)
        selected = {"test": numpy.full(len(classes), True), "validation": held_out, "train": ~held_out}[name]
        chosen = numpy.flatnonzero(selected)
        self.require_examples(chosen, name)
        series = [torch.from_numpy(values[offsets[i] : offsets[i + 1]]) for i in chosen]
        lengths = torch.tensor([len(each) for each in series])
        padded = torch.nn.utils.rnn.pad_sequence(series, batch_first=True)
        targets, same = torch.from_numpy(classes[chosen].astype("int64")), bool((lengths == lengths[0]).all())
        return Split(padded, targets, dict(self.dataset.sha256), lengths=None if same else lengths)

    def _held_out(self, classes: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
        """Return a mask, (n,), that is True for the training series used for validation. classes: (n,)."""
        held_out, of_each = numpy.full(len(classes), False), (self.dataset.validation or 0) // self.task.outputs
        for label in range(self.task.outputs):
            members = numpy.flatnonzero(classes == label)
            held_out[members[(2 * numpy.arange(of_each) + 1) * len(members) // (2 * max(of_each, 1))]] = True
        return held_out
