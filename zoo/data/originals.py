"""Reads the original files of datasets: finds and unpacks them, and compares their digests with the locked ones."""

import glob
import gzip
import hashlib
import io
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from ..checkpoints import sources
from ..errors import DataError
from ..registry import load_registry
from ..registry.schema import Dataset
from ..utils import paths
from ..utils.text import counted

ARCHIVE = "archive"
"""Key in `Dataset.hub_files` of the .tar.gz with all files of the dataset."""


class Recording(dict[str, str]):
    """Stands in for Dataset.sha256 while new digests are made: `is_locked` accepts every file and stores its digest here."""


def is_locked(dataset: Dataset, name: str, digest: str) -> bool:
    """Return whether `digest` is the locked sha256 of the dataset's file `name`. Raises DataError if none is locked."""
    if isinstance(dataset.sha256, Recording):
        dataset.sha256[name] = digest
    if name not in dataset.sha256:
        datasets = load_registry().datasets
        key = next((key for key, known in datasets.items() if known.title == dataset.title), "DATASET")
        raise DataError(f"{dataset.title}: {name} has no digest in cards/lock.json. To lock it: rnnzoo release {key}")
    return dataset.sha256[name] == digest


def named_files(dataset: Dataset, count: int) -> Sequence[str]:
    """Return the names of the dataset's `count` files. Raises DataError if the registry names another number of them."""
    if len(dataset.files) != count:
        raise DataError(
            f"{dataset.title}: the dataset's `files` name {counted(len(dataset.files), 'file')}, and its family reads {count}. "
            "Correct them in the registry."
        )
    return dataset.files


def data_folder(dataset: Dataset) -> Path:
    """Return the folder of a dataset's files, below RNNZOO_DATA."""
    return paths.data() / (dataset.folder or "")


def read_verified(dataset: Dataset, name: str) -> bytes:
    """Return the content of an original file of a dataset, verified against the locked digest.

    The file is in `data_folder`, as it is, gzipped, or in a .tar.gz. If its name has a folder, the file may also be one
    folder deeper, where unpacking an archive puts it. If it is missing, the dataset's archive on the Hub is downloaded.

    Raises DataError if the file is missing or unreadable, if its digest differs from the locked one, or if none is locked.
    """
    folder = data_folder(dataset)
    unpacked_archives = sorted(folder.glob(f"*/{glob.escape(name)}")) if "/" in name else []
    for path in (folder / name, folder / f"{name}.gz", *unpacked_archives, *sorted(folder.glob("*.tar.gz"))):
        if path.exists() and (content := _content(path, name)) is not None:
            return _verified(content, path, dataset, name)
    source = f" It is available at {dataset.url}." if dataset.url else ""
    if dataset.derived:
        source = f" It is {dataset.derived}; see {dataset.url}."
    if dataset.originals:
        source += f" To make it from a copy of that repository: rnnzoo convert {name} FOLDER."
    missing = (
        f"{dataset.title}: {name} was not found in {folder}.{source} Put the file into that folder, or set RNNZOO_DATA to the "
        f"folder that contains {dataset.folder}."
    )
    if dataset.hub is None or ARCHIVE not in dataset.hub_files:
        raise DataError(missing)
    try:
        archive = sources.dataset_file(dataset.hub, dataset.hub_files[ARCHIVE])
    except DataError as error:
        raise DataError(f"{missing} The Hub was asked too: {error}") from error
    if (content := _content(archive, name)) is None:
        raise DataError(f"{archive} has no {name} of {dataset.title}. Put the file into {folder}.")
    return _verified(content, archive, dataset, name)


def _content(path: Path, name: str) -> bytes | None:
    """Return the content of the file `name`, which `path` is or contains; None if `path` is an archive without it."""
    is_archive = path.name.endswith(".tar.gz") and path.name != name
    return from_archive(path, name) if is_archive else unpacked(path)


def _verified(content: bytes, path: Path, dataset: Dataset, name: str) -> bytes:
    if not is_locked(dataset, name, hashlib.sha256(content).hexdigest()):
        raise DataError(
            f"{path} is not the original {name} of {dataset.title} (sha256 differs). Replace it with the original file."
        )
    return content


def read_arrays(dataset: Dataset, *names: str) -> list[NDArray[Any]]:
    """Return the arrays `names`, in this order, of the dataset's only file, an .npz.

    Raises DataError if the file or an array is missing, or if the file cannot be read.
    """
    (file,) = named_files(dataset, 1)
    try:
        with numpy.load(io.BytesIO(read_verified(dataset, file)), allow_pickle=False) as arrays:
            return [arrays[name] for name in names]
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{dataset.title}: {file} lacks one of the arrays {', '.join(names)} ({error}). Use the original file."
        ) from error


def verify_generated(dataset: Dataset, name: str, numbers: NDArray[Any]) -> dict[str, str]:
    """Return {name: sha256} of the bytes of a generated array. Raises DataError if the digest differs from the locked one.

    name: the key of the digest in cards/lock.json.
    """
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()
    if not is_locked(dataset, name, digest):
        raise DataError(
            f"{dataset.title}, {name}: the numbers that numpy generated do not match the locked sha256. After a change "
            "of the generating code, lock the new numbers: rnnzoo release DATASET"
        )
    return {name: digest}


def unpacked(path: Path) -> bytes:
    """Return the content of a file, gzipped or not. Raises DataError if it cannot be read."""
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error


def from_archive(path: Path, name: str) -> bytes | None:
    """Return the content of the file `name` from any folder of a .tar.gz; None if the archive does not have the file.

    Raises DataError if the archive cannot be read.
    """
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.isfile() and f"/{member.name}".endswith(f"/{name}"):
                    file = archive.extractfile(member)
                    return file.read() if file else None
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    return None
