"""MNIST (LeCun, Cortes & Burges), read pixel by pixel, in a fixed permutation of the pixels, or row by row.

The test images come with the package. The training images come from `data_folder`, as the original IDX files, gzipped or
not, or as the parquet file of the Hub's ylecun/mnist; if the folder has none of these, they come from the Hub. All must
decode to exactly the values of the original IDX files, whose sha256 is locked.
"""

import hashlib
import io
import math
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from ..checkpoints import sources
from ..errors import DataError, MissingExtraError, RequestError
from ..registry.schema import Dataset, Task
from .base import Split, SplitName, TaskData
from .originals import data_folder, is_locked, unpacked

PACKAGED = Path(__file__).resolve().parent / "files"
PERMUTATION_SHA256 = "f0916ed5ac788c76b7974220ffd2ad935773ae95c8a53be3ad377ed6742aa9ed"


class MNIST(TaskData):
    """Layouts: `pixels` (784 steps of 1), `permuted-pixels` (the same, permuted), `rows` (28 steps of 28).

    `quarter-pixels` and `permuted-quarter-pixels` are the first two for a smaller image, whose pixels are means of 2 x 2
    pixels (196 steps of 1).
    """

    layouts = ("pixels", "permuted-pixels", "rows", "quarter-pixels", "permuted-quarter-pixels")
    image = (28, 28)

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        self._files: dict[str, Tensor] = {}

    def read(self, name: SplitName) -> Split:
        part = "t10k" if name == "test" else "train"
        images, labels = (self._file(f"{part}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        held_out = self.dataset.validation or 0
        part_of = {"test": slice(None), "validation": slice(held_out), "train": slice(held_out, None)}
        selected = part_of[name]
        digests = {k: v for k, v in self.dataset.sha256.items() if k.startswith(part)}
        return Split(images.flatten(1)[selected], labels[selected].long(), digests, self._prepare)

    def _prepare(self, raw: Tensor) -> Tensor:
        """Turn bytes, (batch, 784) or (batch, ..., 28, 28), into (batch, time, features) in [0, 1]."""
        x = raw.flatten(1)
        if raw.dtype != torch.uint8 or x.shape[1] != math.prod(self.image):
            raise RequestError(
                f"MNIST's images are (batch, 28, 28) of torch.uint8; got {tuple(raw.shape)}, {raw.dtype}."
            )
        x = x.float() / 255
        if "quarter" in self.task.layout:
            x = avg_pool2d(x.unflatten(1, (1, *self.image)), 2).flatten(1)
        if self.task.layout.startswith("permuted"):
            order = permutation().to(x.device)
            x = x[:, order[order < x.shape[1]]]
        return x.unflatten(1, (self.task.steps, *self.task.input))

    def _file(self, name: str) -> Tensor:
        """Return the values of the original IDX file `name`, uint8, verified. Each file is read once."""
        if name in self._files:
            return self._files[name]
        candidates = self._candidates(name)
        for path in candidates:
            if path.exists():
                content = _from_parquet(path, "images" in name) if path.suffix == ".parquet" else unpacked(path)
                if not is_locked(self.dataset, name, hashlib.sha256(content).hexdigest()):
                    raise DataError(
                        f"{path}: its values differ from those of MNIST's {name} (sha256 differs). Replace it with the "
                        "original file."
                    )
                return self._files.setdefault(name, _values(content))
        folder = candidates[0].parent if candidates else data_folder(self.dataset)
        raise DataError(
            f"MNIST's {name} was not found in {folder}. Put the file there, or set RNNZOO_DATA to the folder that contains "
            f"{self.dataset.folder}."
        )

    def _candidates(self, name: str) -> list[Path]:
        """Return paths where the original file `name`, or the parquet file with its values, may be.

        If no such file is on this machine, the parquet file is downloaded.
        """
        if name.startswith("t10k"):
            return [PACKAGED / f"{name}.gz"]
        folder, parquet = data_folder(self.dataset), self.dataset.hub_files["train"]
        local = [folder / f"{name}.gz", folder / name, folder / Path(parquet).name]
        if any(path.exists() for path in local):
            return local
        try:
            return [sources.dataset_file(self.dataset.hub, parquet)] if self.dataset.hub else []
        except DataError as error:
            raise DataError(
                f"MNIST's {name} was not found in {folder}. Put the file there, set RNNZOO_DATA to the folder that contains "
                f"{self.dataset.folder}, or connect to the Hub. {error}"
            ) from error


@cache
def permutation() -> Tensor:
    """Return the index of the pixel that permuted MNIST reads at each step, (784,), int64, as in the code of JANET and STAR.

    An image of fewer pixels is read in the same order, without the indices beyond its last pixel. Raises DataError if the
    packaged file is damaged.
    """
    content = unpacked(PACKAGED / "pmnist_permutation_mask.npy")
    if hashlib.sha256(content).hexdigest() != PERMUTATION_SHA256:
        raise DataError("The packaged permutation of the pixels is damaged; reinstall rnnzoo.")
    return torch.frombuffer(bytearray(content[-784 * 8 :]), dtype=torch.int64)


def _from_parquet(path: Path, images: bool) -> bytes:
    """Return the bytes of an original IDX file, restored from a parquet file of the Hub's ylecun/mnist.

    images: True to read the column `image` (PNG bytes), False to read `label`. Raises DataError if the column is missing or
    cannot be read.
    """
    try:
        import pyarrow.parquet as parquet
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pyarrow and pillow", "data") from error
    try:
        column = parquet.read_table(path, columns=["image" if images else "label"]).column(0).to_pylist()
        if not images:
            return _header(len(column)) + bytes(column)
        pixels = (Image.open(io.BytesIO(row["bytes"])).convert("L").tobytes() for row in column)
        return _header(len(column), 28, 28) + b"".join(pixels)
    except Exception as error:  # pyarrow and pillow raise many kinds, SyntaxError and NotImplementedError among them
        raise DataError(
            f"{path}: not a parquet file of the Hub's ylecun/mnist ({error}). Download it again."
        ) from error


def _header(*sizes: int) -> bytes:
    """Return the header of an IDX file of an array of shape `sizes`: two zeros, type 8 (unsigned bytes), rank, sizes."""
    return bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)


def _values(content: bytes) -> Tensor:
    """Return the array in an IDX file of unsigned bytes, uint8. content: of the file, whose digest the caller has verified."""
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, 4 + 4 * content[3], 4)]
    return torch.frombuffer(bytearray(content[-math.prod(sizes) :]), dtype=torch.uint8).reshape(sizes)
