"""The .npz of a dataset from the files as they are published: each value, the whole files byte for byte, and wrong originals."""

import json
import os
import re
import struct
import sys
import types
import wave
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

from zoo.data import conversion
from zoo.data.originals import data_folder
from zoo.errors import DataError, RequestError, StorageError, UnknownNameError
from zoo.registry import load_registry

DATASETS = {name: each for name, each in load_registry().datasets.items() if each.originals}
ROOTS = {name: each.originals.rpartition("/")[0] for name, each in DATASETS.items()}
"""The folder of the published files in their repository, by dataset."""


def write_recordings(folder: Path, arrays: dict[str, numpy.ndarray]) -> None:
    ends = arrays["offsets"]
    for i, (digit, speaker, index) in enumerate(zip(arrays["digit"], arrays["speaker"], arrays["index"], strict=True)):
        with wave.open(str(folder / f"{digit}_{speaker}_{index}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(arrays["audio"][ends[i] : ends[i + 1]].tobytes())


def write_events(folder: Path, arrays: dict[str, numpy.ndarray]) -> None:
    for part, title in (("train", "train1K.txt"), ("test", "test100.txt")):
        x, y, p, t, ends, labels, numbers = (
            arrays[f"{part}_{key}"] for key in ("x", "y", "p", "t_us", "offsets", "label", "file_id")
        )
        (folder / title).write_text(
            "#sample #class\n" + "".join(f"{n}\t{c}\n" for n, c in zip(numbers, labels, strict=True))
        )
        for i, number in enumerate(numbers):
            clip = slice(ends[i], ends[i + 1])
            content = b"".join(
                bytes([int(a), int(b)]) + (int(bit) << 23 | int(time)).to_bytes(3, "big")
                for a, b, bit, time in zip(x[clip], y[clip], p[clip], t[clip], strict=True)
            )
            (folder / f"{number}.bs2").write_bytes(content)


def write_series(folder: Path, arrays: dict[str, numpy.ndarray]) -> None:
    for part in ("train", "test"):
        values, ends, classes = (arrays[f"{part}_{key}"] for key in ("X", "offsets", "y"))
        lines = ["# a comment", f"@classLabel true {' '.join(arrays['classes'])}", "@data"]
        for i, label in enumerate(classes):
            rows = values[ends[i] : ends[i + 1]].T.tolist()
            lines.append(":".join([*(",".join(map(repr, row)) for row in rows), arrays["classes"][label]]))
        (folder / f"Name_{part.upper()}.ts").write_text("\n".join(lines) + "\n")


WRITERS = {".wav": write_recordings, ".bs2": write_events, ".ts": write_series}
WRITTEN = [name for name, each in DATASETS.items() if Path(each.originals).suffix in WRITERS]


def originals(name: str, root: Path, arrays: dict[str, numpy.ndarray]) -> Path:
    """Write the files from which the arrays would be made, below `root`, and return `root`."""
    (root / ROOTS[name]).mkdir(parents=True)
    WRITERS[Path(DATASETS[name].originals).suffix](root / ROOTS[name], arrays)
    return root


SMALL = {
    "fsdd": {
        "audio": numpy.array([0, -32768, 32767, 1, 2], "int16"), "offsets": numpy.array([0, 3, 4, 5]),
        "digit": numpy.array([0, 0, 7]), "speaker": numpy.array(["ann", "ann", "bo"]), "index": numpy.array([1, 10, 2]),
    },
    "nmnist-small": {
        f"{part}_{key}": value
        for part in ("train", "test")
        for key, value in {
            "x": numpy.array([33, 0, 7], "uint8"), "y": numpy.array([1, 33, 9], "uint8"), "p": numpy.array([1, 0, 1], "uint8"),
            "t_us": numpy.array([0, 336040, 2**23 - 1], "int32"), "offsets": numpy.array([0, 1, 3]), "label": numpy.array([9, 0]),
            "file_id": numpy.array([12, 3] if part == "train" else [7, 8]),
        }.items()
    },
    "japanese-vowels": {
        "classes": numpy.array(["b", "a"]),
        "train_X": numpy.array([[1.5, -2], [0.1, 3], [4, 5]], "float32"), "train_offsets": numpy.array([0, 1, 3]), "train_y": numpy.array([1, 0]),
        "test_X": numpy.array([[1e-7, 0]], "float32"), "test_offsets": numpy.array([0, 1]), "test_y": numpy.array([0]),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_every_value_arrives(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(conversion, "is_locked", lambda *_: True)
    (file,) = DATASETS[name].files
    path = conversion.convert(file, originals(name, tmp_path / "clone", SMALL[name]))
    assert path == data_folder(DATASETS[name]) / file
    with numpy.load(path, allow_pickle=False) as found:
        assert found.files == list(SMALL[name])
        for key, expected in SMALL[name].items():
            assert (found[key].dtype, found[key].tolist()) == (expected.dtype, expected.tolist())


def test_a_table_of_r(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Place:  # a table of pandas, as far as it is read
        columns = ("Index", "MIR", "NDVI")

        def __init__(self, mir: float):
            self.rows = [[15962.0, mir, 0.3], [15978.0, 0.2, 0.4]]

        def to_numpy(self, dtype: str) -> numpy.ndarray:
            return numpy.array(self.rows, dtype)

    table = {
        "longitude": [1.0, 2.0, 3.0], "latitude": [4.0, 5.0, 6.0], "label": ["Soy", "Forest", "Soy"],
        "time_series": [Place(0.0), Place(0.1), Place(0.2)],
    }  # fmt: skip
    monkeypatch.setitem(sys.modules, "rdata", types.SimpleNamespace(read_rda=lambda path: {"any name": table}))
    (tmp_path / "table.rda").touch()
    arrays = conversion.land_cover([tmp_path / "table.rda"])
    assert arrays["y"].tolist() == [1, 0, 1]
    assert (arrays["classes"].tolist(), arrays["bands"].tolist()) == (["Forest", "Soy"], ["MIR", "NDVI"])
    assert arrays["days_since_1970"].tolist() == [[15962, 15978]] * 3
    assert arrays["lonlat"].tolist() == [[1, 4], [2, 5], [3, 6]]
    numpy.testing.assert_array_equal(arrays["X"][2], numpy.array([[0.2, 0.3], [0.2, 0.4]], "float32"))


@pytest.mark.parametrize("content", [{}, {"a": 1}, {"a": {"time_series": []}}, None])
def test_a_damaged_table_of_r(content: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_rda(path: Path) -> object:
        assert content is not None
        return content

    monkeypatch.setitem(sys.modules, "rdata", types.SimpleNamespace(read_rda=read_rda))
    (tmp_path / "table.rda").touch()
    with pytest.raises(DataError, match=r"table\.rda is not as it was published"):
        conversion.land_cover([tmp_path / "table.rda"])


def test_a_table_of_r_needs_its_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "rdata", None)
    with pytest.raises(DataError, match="pip install rdata"):
        conversion.land_cover([tmp_path / "table.rda"])


def test_other_originals_are_refused_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    clone = originals("fsdd", tmp_path / "clone", SMALL["fsdd"])
    with pytest.raises(DataError, match="would not be the file that was measured"):
        conversion.convert("fsdd_8khz_int16.npz", clone)
    (clone / "recordings" / "0_ann_1.wav").write_bytes(b"RIFF and nothing more")
    with pytest.raises(DataError, match=r"0_ann_1\.wav is not the published file: it is not a WAV file\."):
        conversion.convert("fsdd_8khz_int16.npz", clone)
    with pytest.raises(
        DataError, match=r"has no recordings/\*\.wav\. Give it a copy of https://github\.com/Jakobovski"
    ):
        conversion.convert("fsdd_8khz_int16.npz", tmp_path)
    with pytest.raises(
        RequestError, match=r"There is no folder .*nowhere\. Give a copy of https://github\.com/Jakobovski"
    ):
        conversion.convert("fsdd_8khz_int16.npz", tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match=r"Did you mean basic_motions\.npz"):
        conversion.convert("basic_motion.npz", tmp_path)
    assert not (tmp_path / "data").exists()


WAV = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36, b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16, b"dada", 0x24EE)


@pytest.mark.parametrize(
    ("name", "file", "content", "words"),
    [
        ("fsdd", "0_ann_1.wav", b"", "it is empty"),
        ("fsdd", "0_ann_1.wav", WAV, "it is a WAV file that ends before its audio"),
        ("fsdd", f"{'9' * 23}_ann_1.wav", None, "too large|out of bounds"),
        ("fsdd", "ann.wav", None, "not enough values"),
        ("nmnist-small", "train1K.txt", b"", "no data"),
        ("nmnist-small", "train1K.txt", b"3 1\n99 2\n", r"there is no 99\.bs2, which it lists"),
        ("nmnist-small", "3.bs2", b"123456", "cannot reshape"),
        ("japanese-vowels", "Name_TRAIN.ts", b"\xff", "can't decode"),
        ("japanese-vowels", "Name_TEST.ts", b"@classLabel true b a\n@data\n1,2:3:a\n", "inhomogeneous"),
    ],
)
def test_a_damaged_original_is_named(
    name: str, file: str, content: bytes | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    clone = originals(name, tmp_path / "clone", SMALL[name])
    path = clone / ROOTS[name] / file
    path.write_bytes((clone / ROOTS[name] / "0_ann_1.wav").read_bytes() if content is None else content)
    with pytest.raises(DataError) as error:
        conversion.convert(*DATASETS[name].files, clone)
    assert str(error.value).startswith(f"{path} is not ")
    assert re.search(words, str(error.value))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("name", "file"), [("fsdd", "0_ann_1.wav"), ("nmnist-small", "test100.txt"), ("nmnist-small", "3.bs2")]
)
def test_a_pipe_among_the_originals_is_refused(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    path = originals(name, tmp_path / "clone", SMALL[name]) / ROOTS[name] / file
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match=f"it is not a regular file: .*{file}"):
        conversion.convert(*DATASETS[name].files, tmp_path / "clone")


@pytest.mark.parametrize("obstacle", ["folder", "file", "link"])
def test_a_place_that_cannot_be_written_to_is_refused_before_any_work(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(conversion, "CONVERTERS", {})
    clone = originals("fsdd", tmp_path / "clone", SMALL["fsdd"])
    folder = data_folder(DATASETS["fsdd"])
    if obstacle == "folder":
        (folder / "fsdd_8khz_int16.npz").mkdir(parents=True)
    elif obstacle == "file":
        (tmp_path / "data").write_text("")
    else:
        folder.parent.mkdir()
        folder.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RequestError, match=r"fsdd_8khz_int16\.npz cannot be written: .* is in the way"):
        conversion.convert("fsdd_8khz_int16.npz", clone)


def test_a_place_without_permission_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(conversion, "CONVERTERS", {})
    clone = originals("fsdd", tmp_path / "clone", SMALL["fsdd"])
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageError, match=re.escape(f"you may not write to {tmp_path}")):
        conversion.convert("fsdd_8khz_int16.npz", clone)


@pytest.mark.parametrize("name", ["basic-motions", "nmnist-small"])
def test_incomplete_originals_are_refused(name: str, tmp_path: Path) -> None:
    (file,), pattern = DATASETS[name].files, DATASETS[name].originals
    path = tmp_path / pattern.replace("*", "Only_TRAIN")
    path.parent.mkdir(parents=True)
    path.write_text("@classLabel true a\n@data\n1,2:a\n")
    with pytest.raises((DataError, OSError)):
        conversion.convert(file, tmp_path)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.data import examples

    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"rnnzoo convert fsdd_8khz_int16\.npz FOLDER"):
        examples("fsdd")


def test_the_command(run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    clone = originals("fsdd", tmp_path / "clone", SMALL["fsdd"])
    code, out, err = run("convert", "fsdd_8khz_int16.npz", str(clone))
    assert (code, out, "Nothing was written" in err) == (1, "", True)
    assert run("convert", "fsdd.npz", str(clone))[0] == 2
    monkeypatch.setattr(conversion, "is_locked", lambda *_: True)
    code, out, _ = run("convert", "fsdd_8khz_int16.npz", str(clone), "--json")
    path = tmp_path / "data" / "fsdd" / "fsdd_8khz_int16.npz"
    assert (code, json.loads(out), path.is_file()) == (0, {"path": str(path)}, True)


@pytest.mark.data
@pytest.mark.parametrize("name", WRITTEN)
def test_the_measured_files_are_made_byte_for_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = DATASETS[name].files
    measured = data_folder(DATASETS[name]) / file
    with numpy.load(measured, allow_pickle=False) as arrays:
        clone = originals(name, tmp_path / "clone", dict(arrays))
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    assert conversion.convert(file, clone).read_bytes() == measured.read_bytes()
