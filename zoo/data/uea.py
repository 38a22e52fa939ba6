"""Small multivariate series of the UEA archive: speakers by vowels, words by the tongue and lips, activities by a watch.

The .npz of each dataset has, for train and test, the series end to end in `X`, (steps, features), their `offsets` and their
class `y`. Training and test part are those of the archive.
"""

import numpy
import torch
from numpy.typing import NDArray

from ..errors import DataError
from .base import Split, SplitName, TaskData
from .originals import read_arrays


class UEA(TaskData):
    """Layout `published`: the archive's test part; its training part without `dataset.validation` series, as many of a class.

    The validation series of a class are evenly spaced among its training series, in the order of the archive: of n, series
    floor((i + 1/2) n / k) for i = 0 to k - 1.
    """

    layouts = ("published",)

    def read(self, name: SplitName) -> Split:
        part = "test" if name == "test" else "train"
        values, offsets, classes = read_arrays(self.dataset, f"{part}_X", f"{part}_offsets", f"{part}_y")
        if values.ndim != 2 or values.shape[1:] != self.task.input or offsets[-1] != len(values):
            raise DataError(f"{self.dataset.title}: the series are not those of {self.task.title}.")
        held_out = self._held_out(classes)
        selected = {"test": numpy.full(len(classes), True), "validation": held_out, "train": ~held_out}[name]
        chosen = numpy.flatnonzero(selected)
        series = [torch.from_numpy(values[offsets[i] : offsets[i + 1]]) for i in chosen]
        lengths = torch.tensor([len(each) for each in series])
        padded = torch.nn.utils.rnn.pad_sequence(series, batch_first=True)
        targets, same = torch.from_numpy(classes[chosen].astype("int64")), bool((lengths == lengths[0]).all())
        return Split(padded, targets, dict(self.dataset.sha256), lengths=None if same else lengths)

    def _held_out(self, classes: NDArray[numpy.int64]) -> NDArray[numpy.bool_]:
        """Return which training series, (n,), are for validation. classes: (n,)."""
        held_out, of_each = numpy.full(len(classes), False), (self.dataset.validation or 0) // self.task.outputs
        for label in range(self.task.outputs):
            members = numpy.flatnonzero(classes == label)
            held_out[members[(2 * numpy.arange(of_each) + 1) * len(members) // (2 * max(of_each, 1))]] = True
        return held_out
