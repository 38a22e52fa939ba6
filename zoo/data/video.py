"""Video: 20BN-Jester's hand gestures (Turkoglu et al. 2019, section 5.3), and event-camera clips as a proxy for it.

20BN-Jester is available on request only. N-MNIST small is 1,000 + 100 clips of Orchard et al. 2015: digits on a screen, filmed
by a moving event camera of 34 x 34 pixels. An event is a pixel, a time, and a polarity: brighter or darker.
"""

import hashlib
import os
from pathlib import Path

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import DataError, MissingExtraError
from .base import Split, SplitName, TaskData, split_by_hash
from .originals import data_folder, read_arrays

SENSOR = 34
"""Height and width of the camera in pixels."""
PARTS = ("x", "y", "p", "t_us", "offsets", "label", "file_id")


class NMNIST(TaskData):
    """Layout `frames`: x is log(1 + count) of the events in a grid of equal cells over time, height and width.

    The grid has `task.steps` cells in time and `task.input` = (polarities, height, width) cells at each step. For train and
    test, the .npz has x, y, p and t_us of all events, the `offsets` of each clip's events, and the label and file_id of
    each clip. The validation clips are taken from train.
    """

    layouts = ("frames",)

    def read(self, name: SplitName) -> Split:
        part = "test" if name == "test" else "train"
        x, y, p, t, offsets, labels, ids = read_arrays(self.dataset, *(f"{part}_{key}" for key in PARTS))
        selected = range(len(labels)) if name == "test" else split_by_hash([str(i) for i in ids], self.dataset)[name]
        self.require_examples(selected, name)
        clips = [slice(offsets[i], offsets[i + 1]) for i in selected]
        frames = numpy.stack([self._frames(x[clip], y[clip], p[clip], t[clip]) for clip in clips])
        targets = torch.from_numpy(labels[list(selected)])
        return Split(torch.from_numpy(frames), targets, dict(self.dataset.sha256), _prepare)

    def _frames(self, x: numpy.ndarray, y: numpy.ndarray, p: numpy.ndarray, t: numpy.ndarray) -> numpy.ndarray:
        """Return the number of a clip's events in each cell of the grid, (steps, polarities, height, width), uint8: at most 255.

        x, y, p, t: column, row, polarity (0 or 1) and time in microseconds of each event, (events,).
        """
        polarities, height, width = self.task.input
        shape = (self.task.steps, polarities, height, width)
        # a clip ends with its last event
        indices = (t.astype("int64") * shape[0] // (int(t.max()) + 1), p, y.astype("int64") * height // SENSOR,
                   x.astype("int64") * width // SENSOR)  # fmt: skip
        counts = numpy.zeros(shape, "int32")
        numpy.add.at(counts, indices, 1)
        return counts.clip(max=255).astype("uint8")


def _prepare(raw: Tensor) -> Tensor:
    """Turn counts, (batch, time, polarities, height, width), into log(1 + count)."""
    return raw.float().log1p()


class Jester(TaskData):
    """Layout `frames`: the middle frames of each clip, RGB in [0, 1], resized to the task's `input`.

    The files are laid out as they are distributed: a folder `20bn-jester-v1` with a folder of 00001.jpg, 00002.jpg ... for each
    clip; lists of `clip;label` in `jester-v1-train.csv` and `jester-v1-validation.csv`; and the labels in
    `jester-v1-labels.csv`. The official test clips have no labels, so the test split is the official validation, and the
    validation split is taken from train. A clip with too few frames repeats its last frame.
    """

    layouts = ("frames",)

    def read(self, name: SplitName) -> Split:
        part = "validation" if name == "test" else "train"
        labels, lines = self._lines("labels"), self._lines(part)
        clips = [line.split(";") for line in lines]
        wrong = next((row for row in clips if len(row) != 2 or not row[0].isdigit() or row[1] not in labels), None)
        if wrong is not None:
            raise DataError(
                f"{self.dataset.title}: jester-v1-{part}.csv has the line {';'.join(wrong)!r}, but each line must be the "
                "number of a clip, a semicolon and a label of jester-v1-labels.csv. Use the original file."
            )
        keys = [number for number, _ in clips]
        selected = range(len(clips)) if name == "test" else split_by_hash(keys, self.dataset)[name]
        # the frames of all clips do not fit into memory, so the raw example is the clip's number
        numbers = torch.tensor([int(clips[i][0]) for i in selected])
        targets = torch.tensor([labels.index(clips[i][1]) for i in selected])
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        return Split(numbers, targets, {f"jester-v1-{part}.csv": digest}, self._prepare)

    def _lines(self, name: str) -> list[str]:
        """Return the lines of `jester-v1-NAME.csv`. Raises DataError if the file is missing."""
        path = data_folder(self.dataset) / f"jester-v1-{name}.csv"
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise DataError(
                f"{self.dataset.title}: {path} was not found. The data are available on request at {self.dataset.url}. Put "
                f"the lists and the folder 20bn-jester-v1 into {path.parent}."
            ) from error

    def _prepare(self, raw: Tensor) -> Tensor:
        """Return the clips whose folders have the numbers `raw`, (batch,), as (batch, time, 3, height, width)."""
        root = data_folder(self.dataset) / "20bn-jester-v1"
        return torch.stack([self._clip(root / str(number)) for number in raw.tolist()]).to(raw.device)

    def _clip(self, folder: Path) -> Tensor:
        """Return the frames of the clip in `folder`, (time, 3, height, width). Raises DataError if the folder has none."""
        paths = sorted(folder.glob("*.jpg"))
        if not paths:
            raise DataError(f"{self.dataset.title}: {folder} has no frames (*.jpg). Unpack the dataset again.")
        first = max(len(paths) - self.task.steps, 0) // 2
        paths = paths[first : first + self.task.steps]
        frames = torch.stack([_image(path) for path in paths])
        frames = F.interpolate(frames, self.task.input[1:], mode="bilinear", antialias=True)
        return torch.cat([frames, frames[-1:].expand(self.task.steps - len(frames), -1, -1, -1)])


def _image(path: os.PathLike[str]) -> Tensor:
    """Return the image in a file, RGB, (3, height, width), in [0, 1]. Raises DataError if it cannot be read."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "data") from error
    try:
        with Image.open(path) as image:
            return torch.from_numpy(numpy.array(image.convert("RGB"))).permute(2, 0, 1).float() / 255
    except OSError as error:
        raise DataError(f"{path}: not an image ({error}). Replace it with the original file.") from error
