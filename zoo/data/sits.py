"""Land cover from satellite image time series: 1,892 places in Mato Grosso, 23 dates of MODIS with 6 bands, 9 classes.

It is a proxy for the crops near Munich of Turkoglu et al. 2019, section 5.2 (26 dates of Sentinel-2, 54 values), which
nobody may share. The .npz has X, (n, dates, bands), y, and lonlat, (n, 2). All years of a place are in the same split, because
they are much alike.
"""

import io
import zipfile

import numpy
import torch
from torch import Tensor

from ..errors import DataError
from ..registry.schema import Dataset, Task
from .base import Split, SplitName, TaskData, refuse_layout, split_by_hash
from .originals import read_verified


class Sits(TaskData):
    """Layouts: `sequence` (one target per place) and `steps` (the same target at every date)."""

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        refuse_layout(task, dataset, "sequence", "steps")

    def read(self, name: SplitName) -> Split:
        (file,) = self.dataset.files
        try:
            with numpy.load(io.BytesIO(read_verified(self.dataset, file)), allow_pickle=False) as arrays:
                x, y, places = torch.from_numpy(arrays["X"]), torch.from_numpy(arrays["y"]), arrays["lonlat"]
        except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self.dataset.title}: {file} lacks one of the arrays X, y and lonlat ({error})."
            ) from error
        selected = split_by_hash([f"{east:.5f} {north:.5f}" for east, north in places.tolist()], self.dataset)[name]
        targets = y[selected]
        if self.task.layout == "steps":
            targets = targets[:, None].expand(-1, x.shape[1])
        return Split(x[selected], targets, dict(self.dataset.sha256), _prepare)


def _prepare(raw: Tensor) -> Tensor:
    """Return (batch, dates, bands) as they are: reflectances and indices, about 0 to 1."""
    return raw
