"""Makes the .npz of a dataset from the files as they are published, for `rnnzoo convert`.

The files are below a copy of the repository at the dataset's `url`. The .npz is kept only if it is byte for byte the file whose
sha256 is locked in cards/lock.json.
"""

import hashlib
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from ..errors import DataError, RequestError, ZooError, first_line
from ..registry import load_registry
from ..utils import files
from ..utils.arguments import check_name
from . import video, wav
from .originals import data_folder, is_locked
from .speech import RATE

Arrays = dict[str, Any]
"""The arrays of an .npz by name, in their order in the file."""
LARGEST = 2**28
"""Bytes that one published file may have, but for a table of R."""
DAMAGE = (ValueError, LookupError, EOFError, OverflowError, UserWarning)
"""What a reader below raises for a damaged file."""


@contextmanager
def _original(path: Path) -> Iterator[bytes]:
    """Yield the content of a published file. Raises OSError, and DataError if the block cannot read it."""
    content = files.read_regular(path, LARGEST)
    # numpy warns of a list without lines
    with _blamed(path), warnings.catch_warnings(action="error", category=UserWarning):
        yield content


@contextmanager
def _blamed(path: Path, errors: type[Exception] | tuple[type[Exception], ...] = DAMAGE) -> Iterator[None]:
    """Turn `errors`, and a WavError, within the block into a DataError about `path`."""
    try:
        yield
    except (ZooError, OSError, MemoryError):
        raise
    except wav.WavError as error:
        raise DataError(f"{path} is not the published file: it {error}. Copy it again.") from error
    except errors as error:
        raise DataError(f"{path} is not as it was published ({first_line(error)}). Copy it again.") from error


def recordings(paths: list[Path]) -> Arrays:
    """Return the arrays of WAV files of 16 bits that are called DIGIT_SPEAKER_INDEX.wav. See zoo.data.speech.FSDD."""
    audio, names = [], []
    for path in paths:
        with _original(path) as content:
            audio.append(wav.read(content, RATE).numpy())
            digit, speaker, index = path.stem.split("_")
            names.append((numpy.int64(digit), speaker, numpy.int64(index)))
    digits, speakers, indices = map(numpy.array, zip(*names, strict=True))
    return {
        "audio": numpy.concatenate(audio), "offsets": _offsets(audio), "digit": digits, "speaker": speakers, "index": indices,
    }  # fmt: skip


def events(paths: list[Path]) -> Arrays:
    """Return the arrays of N-MNIST's clips, NUMBER.bs2, and of the lists of training and test clips beside them.

    An event has five bytes: column, row, and one bit of polarity before 23 bits of microseconds. See zoo.data.video.NMNIST.
    """
    arrays: Arrays = {}
    by_number = {path.stem: path for path in paths}
    for part, title in (("train", "train1K.txt"), ("test", "test100.txt")):
        clips = []
        with _original(paths[0].with_name(title)) as content:
            numbers, labels = numpy.loadtxt(io.BytesIO(content), "int64", unpack=True, ndmin=2)
            absent = [f"{n}.bs2" for n in numbers if str(n) not in by_number]
            if absent:
                raise ValueError(f"there is no {absent[0]}, which it lists")
        for number in numbers:
            with _original(by_number[str(number)]) as content:
                clips.append(numpy.frombuffer(content, "uint8").reshape(-1, 5))
        x, y, high, middle, low = numpy.concatenate(clips).T
        time = (high & 127).astype("int32") << 16 | middle.astype("int32") << 8 | low
        columns = (x, y, high >> 7, time, _offsets(clips), labels, numbers)
        arrays |= {f"{part}_{key}": column for key, column in zip(video.PARTS, columns, strict=True)}
    return arrays


def series(paths: list[Path]) -> Arrays:
    """Return the arrays of NAME_TRAIN.ts and NAME_TEST.ts of the UEA archive. See zoo.data.uea.UEA.

    After a header, each line has the values of each feature, separated by commas, and the class, all separated by colons.
    """
    arrays: Arrays = {}
    for part in ("train", "test"):
        (path,) = (path for path in paths if path.stem.lower().endswith(f"_{part}"))
        with _original(path) as content:
            header, _, body = content.decode().partition("@data")
            (classes,) = (line.split()[2:] for line in header.splitlines() if line.lower().startswith("@classlabel"))
            rows = [line.rsplit(":", 1) for line in body.split()]
            values = [
                numpy.array([feature.split(",") for feature in row.split(":")], "float64").T.astype("float32")
                for row, _ in rows
            ]
            arrays |= {} if "classes" in arrays else {"classes": numpy.array(classes)}
            arrays |= {
                f"{part}_X": numpy.concatenate(values), f"{part}_offsets": _offsets(values),
                f"{part}_y": numpy.array([classes.index(label) for _, label in rows]),
            }  # fmt: skip
    return arrays


def land_cover(paths: list[Path]) -> Arrays:
    """Return the arrays of a table of satellite image time series in R's format. See zoo.data.sits.

    Raises DataError if rdata is not installed.
    """
    try:
        import rdata
    except ImportError as error:
        raise DataError("This needs rdata, which reads R's files. Try: pip install rdata") from error
    files.open_regular(paths[0]).close()  # refuses a pipe, for which rdata would wait
    # the table is of a class that only R has; a damaged file makes rdata raise whatever it comes to
    with warnings.catch_warnings(action="ignore"), _blamed(paths[0], Exception):
        (table,) = rdata.read_rda(paths[0]).values()
        places = list(table["time_series"])  # each a table of dates and values: (dates, 1 + bands)
        dates_and_values = numpy.stack([place.to_numpy("float64") for place in places])
        classes, y = numpy.unique(list(table["label"]), return_inverse=True)
        return {
            "X": dates_and_values[..., 1:].astype("float32"), "y": y.astype("int64"), "classes": classes,
            "bands": numpy.array(places[0].columns[1:], "str"), "days_since_1970": dates_and_values[..., 0].astype("int32"),
            "lonlat": numpy.stack([table["longitude"], table["latitude"]], 1).astype("float64"),
        }  # fmt: skip


CONVERTERS: dict[str, Callable[[list[Path]], Arrays]] = {
    ".bs2": events, ".rda": land_cover, ".ts": series, ".wav": recordings,
}  # fmt: skip
"""By the suffix of the published files: the function that makes arrays of them, in the order of their names."""


def _offsets(parts: list[NDArray[Any]]) -> NDArray[numpy.int64]:
    """Return where each part begins if all are end to end, and where the last one ends."""
    return numpy.cumsum([0, *map(len, parts)])


def convert(file: str, folder: Path) -> Path:
    """Make the .npz called `file` from the published files below `folder`, and return its path.

    Raises UnknownNameError for another file, RequestError if there is no such folder or no place for the .npz, DataError if
    the files are missing or damaged, or if the result is not the locked one, and OSError for a file that cannot be read or
    written.
    """
    datasets = {name: each for each in load_registry().datasets.values() if each.originals for name in each.files}
    if not datasets:
        raise RequestError("This zoo's registry.yaml has no dataset with `originals`, so there is no file to convert.")
    check_name("file", file, datasets)
    dataset = datasets[file]
    assert dataset.originals is not None
    if not folder.is_dir():
        raise RequestError(f"There is no folder {folder}. Give a copy of {dataset.url}.")
    paths = sorted(folder.glob(dataset.originals))
    if not paths:
        raise DataError(f"{folder} has no {dataset.originals}. Give it a copy of {dataset.url}.")
    path = data_folder(dataset) / file
    files.check_target(path)
    content = io.BytesIO()
    with _blamed(folder / dataset.originals):
        numpy.savez_compressed(content, **CONVERTERS[paths[0].suffix](paths))
    if not is_locked(dataset, file, hashlib.sha256(content.getvalue()).hexdigest()):
        raise DataError(
            f"{file} would not be the file that was measured (sha256 differs): the files in {folder} are of another version, "
            "or this Python's zlib compresses in another way. Nothing was written."
        )
    files.atomic_write(path, content.getvalue())
    return path
