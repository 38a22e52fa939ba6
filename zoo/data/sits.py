"""Land cover from satellite image time series: 1,892 places in Mato Grosso, 23 dates of MODIS with 6 bands, 9 classes.

The data are a proxy for the crops near Munich of Turkoglu et al. 2019, section 5.2 (26 dates of Sentinel-2, 54 values),
which may not be redistributed. The .npz has X, (n, dates, bands), reflectances and vegetation indices of about 0 to 1; the
classes y, (n,); and lonlat, (n, 2). All years of a place are in the same split, because they are much alike.
"""

import torch

from .base import Split, SplitName, TaskData, split_by_hash
from .originals import read_arrays


class Sits(TaskData):
    """Layouts: `sequence` (one target per place) and `steps` (the same target at every date)."""

    layouts = ("sequence", "steps")

    def read(self, name: SplitName) -> Split:
        x, y, places = read_arrays(self.dataset, "X", "y", "lonlat")
        selected = split_by_hash([f"{east:.5f} {north:.5f}" for east, north in places.tolist()], self.dataset)[name]
        targets = torch.from_numpy(y[selected])
        if self.task.layout == "steps":
            targets = targets[:, None].expand(-1, x.shape[1])
        return Split(torch.from_numpy(x[selected]), targets, dict(self.dataset.sha256))
