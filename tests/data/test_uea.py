"""Series of the UEA archive: its parts, validation series spread over each class, and lengths where they differ."""

import hashlib
import io

import numpy
import pytest
import torch

from zoo import registry
from zoo.data import task_data
from zoo.data.base import TaskData
from zoo.errors import DataError, RequestError

FILE = "japanese_vowels.npz"
EACH = 7
"""Training series of each of nine classes."""


def packed(**changes: object) -> tuple[bytes, dict[str, list[numpy.ndarray]]]:
    """A small .npz in the layout of the real one, and the series of its two parts."""
    source = numpy.random.RandomState(0)
    classes = {"train": numpy.repeat(numpy.arange(9), EACH), "test": numpy.arange(9)[::-1].copy()}
    arrays: dict[str, object] = {}
    series = {}
    for part, y in classes.items():
        series[part] = [source.standard_normal((3 + i % 5, 12)).astype("float32") for i in range(len(y))]
        arrays |= {f"{part}_X": numpy.concatenate(series[part]), f"{part}_y": y}
        arrays[f"{part}_offsets"] = numpy.cumsum([0, *map(len, series[part])])
    buffer = io.BytesIO()
    numpy.savez(buffer, **(arrays | changes))
    return buffer.getvalue(), series


@pytest.fixture
def small(tmp_path, monkeypatch):
    def data(content: bytes, layout: str = "published", validation: int = 18) -> TaskData:
        (tmp_path / "uea_small").mkdir(exist_ok=True)
        (tmp_path / "uea_small" / FILE).write_bytes(content)
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
        known = registry.load_registry()
        pin = {"sha256": {FILE: hashlib.sha256(content).hexdigest()}, "validation": validation}
        task = known.all_tasks["japanese-vowels"].model_copy(update={"layout": layout})
        return task_data(task, known.datasets["japanese-vowels"].model_copy(update=pin))

    return data


def test_the_parts_are_the_archives_and_validation_is_spread_over_each_class(small) -> None:
    content, series = packed()
    held_out = [EACH * label + i for label in range(9) for i in (1, 5)]  # floor(7 / 4) and floor(21 / 4)
    expected = {
        "test": ("test", list(range(9))), "validation": ("train", held_out),
        "train": ("train", [i for i in range(9 * EACH) if i not in held_out]),
    }  # fmt: skip
    for name, (part, chosen) in expected.items():
        split = small(content).split(name)
        assert split.targets.tolist() == [i // EACH if part == "train" else 8 - i for i in chosen]
        for row, length, i in zip(split.raw, split.lengths.tolist(), chosen, strict=True):
            assert length == len(series[part][i])
            assert torch.equal(row[:length], torch.from_numpy(series[part][i]))
            assert (row[length:] == 0).all()


def test_series_of_one_length_need_no_lengths(small) -> None:
    same = {"train_offsets": numpy.arange(9 * EACH + 1) * 3, "train_X": numpy.zeros((27 * EACH, 12), "float32")}
    assert small(packed(**same)[0]).split("train").lengths is None


@pytest.mark.parametrize("changes", [{"test_X": numpy.zeros((9, 11), "float32")}, {"test_offsets": numpy.arange(10)}])
def test_other_series_are_a_data_error(small, changes) -> None:
    with pytest.raises(DataError, match="the series are not those"):
        small(packed(**changes)[0]).split("test")


def test_a_split_without_series_is_a_data_error(small) -> None:
    with pytest.raises(DataError, match="has no examples in its validation split"):
        small(packed()[0], validation=8).split("validation")  # fewer than one of each of the nine classes


def test_a_layout_that_is_none(small) -> None:
    with pytest.raises(RequestError, match=r"no layout 'resampled'.*one of: published"):
        small(packed()[0], "resampled")


@pytest.mark.data
@pytest.mark.parametrize(("name", "sizes", "lengths"), [
    ("articulary-word", (225, 50, 300), None), ("basic-motions", (32, 8, 40), None),
    ("japanese-vowels", (216, 54, 370), (7, 29)),
])  # fmt: skip
def test_the_real_series(name, sizes, lengths) -> None:
    known = registry.load_registry()
    task = known.all_tasks[name]
    data = task_data(task)
    train, validation, test = (data.split(part) for part in ("train", "validation", "test"))
    assert tuple(map(len, (train, validation, test))) == sizes
    assert validation.targets.bincount().tolist() == [sizes[1] // task.outputs] * task.outputs
    steps = train.raw if train.lengths is None else train.raw[torch.arange(26) < train.lengths[:, None]]
    assert (float(steps.mean()), float(steps.std())) == pytest.approx((task.mean, task.std), abs=1e-3)
    assert lengths == (None if test.lengths is None else (int(test.lengths.min()), int(test.lengths.max())))
    assert test.raw.shape[1:] == task.example
