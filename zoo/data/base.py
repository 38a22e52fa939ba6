"""What a task gives training and evaluation: splits of raw examples that become (x, y) a batch at a time."""

import glob
import gzip
import hashlib
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor

from ..checkpoints import hub
from ..checkpoints.tokenizer import Tokenizer
from ..errors import DataError, RequestError, UnknownNameError
from ..networks.network import Network
from ..registry.schema import Augmentation, Dataset, Task
from ..utils import paths
from .augmentation import augmented

SplitName = Literal["train", "validation", "test"]
ARCHIVE = "archive"
"""In a dataset's `hub_files`, the .tar.gz that has all of its files."""
SEEDS: dict[SplitName, int] = {"train": 0, "validation": 1, "test": 2}
"""What the splits of generated data are drawn from."""
IGNORED = -100  # target of a time step that has none


@dataclass(frozen=True)
class Split:
    """Examples of one split, kept in the compact form they are stored in.

    raw: (n, ...), any dtype; targets: classes, (n,), or (n, time) where every step has one, IGNORED where it has none,
    or values, (n, outputs) or (n, time, outputs), NaN where there is none; lengths: (n,), or (n, 2) of story and
    question, or None; digests: sha256 of every original file the split came from; prepare: raw batch to x, (batch,
    time, *input); image: (height, width) where the raw examples are images, (n, height * width).
    """

    raw: Tensor
    targets: Tensor
    digests: dict[str, str]
    prepare: Callable[[Tensor], Tensor]
    lengths: Tensor | None = None
    image: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """One example, x and y, and the length where sequences have one: what a torch.utils.data.DataLoader asks for.

        Sequences are padded to the same number of time steps, while those of `batch` may end with the longest of them.
        """
        if not -len(self) <= index < len(self):
            raise IndexError(f"There are {len(self)} examples; got {index}.")
        x, y, lengths = self.batch(torch.tensor([index]))
        if lengths is None:
            return x[0], y[0]
        padding = x.new_zeros(max(0, self._longest - x.shape[1]), *x.shape[2:])
        return torch.cat([x[0], padding]), y[0], lengths[0]

    @cached_property
    def _longest(self) -> int:
        """The time steps of the longest sequence."""
        assert self.lengths is not None
        return int(self.lengths.reshape(len(self), -1).sum(1).max())

    def batch(
        self, indices: Tensor, device: torch.device | str = "cpu", augment: Augmentation | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """x, y and lengths of the examples at `indices`, on `device`, of images as `augment` has them seen."""
        lengths = None if self.lengths is None else self.lengths[indices].to(device)
        raw = self.raw[indices]
        if augment is not None and augment.augments:
            if self.image is None:
                raise RequestError("Only images can be augmented, and these examples are none.")
            raw = augmented(raw.unflatten(1, self.image), augment).flatten(1)
        return self.prepare(raw.to(device)), self.targets[indices].to(device), lengths


class TaskData(ABC):
    """One dataset family; constructed with a task of the registry and its dataset."""

    def __init__(self, task: Task, dataset: Dataset):
        self.task, self.dataset = task, dataset

    @property
    def tokenizer(self) -> Tokenizer | None:
        """What makes its x of text, where it does."""
        return None

    def attach_tokenizer(self, network: Network) -> None:  # noqa: B027
        """Give a fresh network what it must have of the data before it is trained, such as its words."""

    def split(self, name: SplitName) -> Split:
        """Read, verify and return a split. Raises UnknownNameError for a name that is none of a split, and DataError if a
        file is missing or is not the pinned one."""
        if name not in (known := get_args(SplitName)):
            raise UnknownNameError("split", name, known, f"There is {', '.join(known)}.")
        return self.read(name)

    @abstractmethod
    def read(self, name: SplitName) -> Split:
        """As `split`, of one of those that there are."""


def refuse_layout(task: Task, dataset: Dataset, *known: str) -> None:
    """Raise RequestError unless the task's layout is one that its family knows."""
    if task.layout not in known:
        raise RequestError(f"{dataset.title} has no layout {task.layout!r}; it has: {', '.join(known)}.")


def data_folder(dataset: Dataset) -> Path:
    """A dataset's folder in paths.data()."""
    return paths.data() / (dataset.folder or "")


def read_verified(dataset: Dataset, name: str) -> bytes:
    """The content of an original file of a dataset, verified; on disk it may be gzipped, or in a .tar.gz.

    Files lie in data_folder; one with a folder in its name also in any folder there, as an archive unpacks. An archive
    that the Hub has is fetched if need be. Raises DataError.
    """
    folder = data_folder(dataset)
    deeper = sorted(folder.glob(f"*/{glob.escape(name)}")) if "/" in name else []
    for path in (folder / f"{name}.gz", folder / name, *deeper, *sorted(folder.glob("*.tar.gz"))):
        if path.exists() and (content := _content(path, name)) is not None:
            return _verified(content, path, dataset, name)
    where = f" It is at {dataset.url}." if dataset.url else ""
    where = f" It is {dataset.derived}; see {dataset.url}." if dataset.derived else where
    missing = (
        f"{dataset.title}: {name} was not found in {folder}.{where} Put it there, or set RNNZOO_DATA to the folder "
        f"that has {dataset.folder}."
    )
    if dataset.hub is None or ARCHIVE not in dataset.hub_files:
        raise DataError(missing)
    try:
        archive = hub.dataset_file(dataset.hub, dataset.hub_files[ARCHIVE])
    except DataError as error:
        raise DataError(f"{missing} The Hub was asked too: {error}") from error
    if (content := _content(archive, name)) is None:
        raise DataError(f"{archive} has no {name} of {dataset.title}.")
    return _verified(content, archive, dataset, name)


def _content(path: Path, name: str) -> bytes | None:
    return archived(path, name) if path.name.endswith(".tar.gz") else unpacked(path)


def _verified(content: bytes, path: Path, dataset: Dataset, name: str) -> bytes:
    if not is_locked(dataset, name, hashlib.sha256(content).hexdigest()):
        raise DataError(f"{path}: not the {name} of {dataset.title} (sha256 differs).")
    return content


class Recording(dict[str, str]):
    """The digests of a dataset that is being locked: whatever is read is taken down."""


def is_locked(dataset: Dataset, name: str, digest: str) -> bool:
    """Whether `digest` is the locked one of the dataset's file `name`; a Recording takes it down.

    Raises DataError for a file that has no locked digest.
    """
    if isinstance(dataset.sha256, Recording):
        dataset.sha256[name] = digest
    if name not in dataset.sha256:
        raise DataError(f"{dataset.title}: {name} has no digest in cards/lock.json. To lock it: rnnzoo release DATASET")
    return dataset.sha256[name] == digest


def unpacked(path: Path) -> bytes:
    """The content of a file, gzipped or not."""
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error


def archived(path: Path, name: str) -> bytes | None:
    """The content of the file `name`, in whatever folder, of a .tar.gz; None where it has no such."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isfile() and f"/{member.name}".endswith(f"/{name}"):
                    file = archive.extractfile(member)
                    return file.read() if file else None
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    return None


def split_by_hash(keys: Sequence[str], dataset: Dataset) -> dict[SplitName, list[int]]:
    """Indices of the examples of every split of data that come without any, each in an order as good as random.

    Examples of one key are never parted. Keys are put in the order of their sha256; the first `test` of them are the
    test, then come those for validation.
    """
    members: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    order = sorted(members, key=lambda key: hashlib.sha256(key.encode()).digest())
    test, validation = dataset.test or 0, dataset.validation or 0
    parts: dict[SplitName, list[str]] = {
        "test": order[:test], "validation": order[test : test + validation], "train": order[test + validation :],
    }  # fmt: skip
    return {name: [index for key in part for index in members[key]] for name, part in parts.items()}
