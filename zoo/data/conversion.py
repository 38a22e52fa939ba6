"""Makes the .npz of a dataset from the files as they are published, for `rnnzoo convert`.

The files are below a copy of the repository at the dataset's `url`. The .npz is kept only if it is byte for byte the file whose
sha256 is locked in cards/lock.json.
"""

import hashlib
import io
import warnings
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from ..errors import DataError, RequestError
from ..registry import load_registry
from ..utils import files
from ..utils.arguments import check_name
from .originals import data_folder, is_locked

Arrays = dict[str, Any]
"""The arrays of an .npz by name, in their order in the file."""


def recordings(paths: list[Path]) -> Arrays:
    """Return the arrays of WAV files of 16 bits that are called DIGIT_SPEAKER_INDEX.wav. See zoo.data.speech.FSDD."""
    audio = []
    for path in paths:
        with wave.open(str(path)) as file:
            audio.append(numpy.frombuffer(file.readframes(file.getnframes()), "int16"))
    digits, speakers, indices = zip(*(path.stem.split("_") for path in paths), strict=True)
    return {
        "audio": numpy.concatenate(audio), "offsets": _offsets(audio), "digit": numpy.array(digits, "int64"),
        "speaker": numpy.array(speakers), "index": numpy.array(indices, "int64"),
    }  # fmt: skip


def events(paths: list[Path]) -> Arrays:
    """Return the arrays of N-MNIST's clips, NUMBER.bs2, and of the lists of training and test clips beside them.

    An event has five bytes: column, row, and one bit of polarity before 23 bits of microseconds. See zoo.data.video.NMNIST.
    """
    arrays: Arrays = {}
    by_number = {path.stem: path for path in paths}
    for part, title in (("train", "train1K.txt"), ("test", "test100.txt")):
        numbers, labels = numpy.loadtxt(paths[0].with_name(title), "int64", unpack=True, ndmin=2)
        clips = [numpy.frombuffer(by_number[str(n)].read_bytes(), "uint8").reshape(-1, 5) for n in numbers]
        x, y, high, middle, low = numpy.concatenate(clips).T
        time = (high & 127).astype("int32") << 16 | middle.astype("int32") << 8 | low
        columns = (x, y, high >> 7, time, _offsets(clips), labels, numbers)
        keys = ("x", "y", "p", "t_us", "offsets", "label", "file_id")
        arrays |= {f"{part}_{key}": column for key, column in zip(keys, columns, strict=True)}
    return arrays


def series(paths: list[Path]) -> Arrays:
    """Return the arrays of NAME_TRAIN.ts and NAME_TEST.ts of the UEA archive. See zoo.data.uea.UEA.

    After a header, each line has the values of each feature, separated by commas, and the class, all separated by colons.
    """
    arrays: Arrays = {}
    for part in ("train", "test"):
        (path,) = (path for path in paths if path.stem.lower().endswith(f"_{part}"))
        header, _, body = path.read_text(encoding="utf-8").partition("@data")
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
    with warnings.catch_warnings(action="ignore"):  # the table is of a class that only R has
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

    Raises UnknownNameError for another file, RequestError if there is no such folder, and DataError if the files are missing
    or damaged, or if the result is not the locked one.
    """
    datasets = {name: each for each in load_registry().datasets.values() if each.originals for name in each.files}
    check_name("file", file, datasets)
    dataset = datasets[file]
    assert dataset.originals is not None
    if not folder.is_dir():
        raise RequestError(f"There is no folder {folder}. Give a copy of {dataset.url}.")
    paths = sorted(folder.glob(dataset.originals))
    if not paths:
        raise DataError(f"{folder} has no {dataset.originals}. Give it a copy of {dataset.url}.")
    content = io.BytesIO()
    try:
        numpy.savez_compressed(content, **CONVERTERS[paths[0].suffix](paths))
    except (ValueError, KeyError, EOFError, wave.Error) as error:
        raise DataError(f"{folder / dataset.originals}: not the published files ({error}). Copy them again.") from error
    if not is_locked(dataset, file, hashlib.sha256(content.getvalue()).hexdigest()):
        raise DataError(
            f"{file} would not be the file that was measured (sha256 differs): the files in {folder} are of another version, "
            "or this Python's zlib compresses in another way. Nothing was written."
        )
    path = data_folder(dataset) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    files.atomic_write(path, content.getvalue())
    return path
