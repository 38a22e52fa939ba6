"""Land cover: the splits keep places whole, one class a sequence or the same at every date."""

import hashlib
import io

import numpy
import pytest
import torch

from zoo import registry
from zoo.data import task_data
from zoo.data.base import split_by_hash
from zoo.errors import DataError, RequestError
from zoo.networks.builder import build
from zoo.training.evaluation import measure

FILE = "matogrosso_mod13q1_1892.npz"
CPU = torch.device("cpu")
N = 60


def arrays(**changes):
    """An .npz in the layout of the real one, with two series at each place."""
    source = numpy.random.RandomState(0)
    made = {
        "X": source.random_sample((N, 23, 6)).astype("float32"),
        "y": source.randint(0, 9, N).astype("int64"),
        "lonlat": numpy.repeat(source.random_sample((N // 2, 2)), 2, 0),
    } | changes  # fmt: skip
    buffer = io.BytesIO()
    numpy.savez(buffer, **made)
    return buffer.getvalue(), made


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    (tmp_path / "crop_sits").mkdir()
    return tmp_path / "crop_sits"


def data(name, content):
    """The task on this file, which is written by the caller."""
    pin = {"sha256": {FILE: hashlib.sha256(content).hexdigest()}, "test": 10, "validation": 5}
    return task_data(
        registry.load_registry().all_tasks[name],
        registry.load_registry().datasets["mato-grosso"].model_copy(update=pin),
    )


@pytest.mark.parametrize("name", ["sits", "sits-steps"])
def test_places_are_not_parted(folder, name):
    content, made = arrays()
    (folder / FILE).write_bytes(content)
    splits = {part: data(name, content).split(part) for part in ("test", "validation", "train")}
    assert [len(split) for split in splits.values()] == [20, 10, 30]
    series = {made["X"][i].tobytes(): i for i in range(N)}
    seen = [{series[row.numpy().tobytes()] for row in split.raw} for split in splits.values()]
    assert set.union(*seen) == set(range(N))
    places = [{i // 2 for i in rows} for rows in seen]
    assert not places[0] & places[1]
    assert not places[0] & places[2]
    assert not places[1] & places[2]
    x, y, lengths = splits["train"].batch(torch.arange(30), CPU)
    assert x.shape == (30, 23, 6)
    assert lengths is None
    assert y.shape == ((30,) if name == "sits" else (30, 23))
    for row, labels in zip(x, y, strict=True):
        assert set(labels.flatten().tolist()) == {made["y"][series[row.numpy().tobytes()]]}
    found = measure(build(f"star-1x128-{name}", device="cpu"), splits["test"], "class", 7)
    assert 0 <= found.metric <= 1


def test_groups_are_dealt_in_the_order_of_the_digests_of_their_keys():
    groups = [f"place {i // 2}" for i in range(40)]
    held = registry.load_registry().datasets["mato-grosso"].model_copy(update={"test": 4, "validation": 3})
    order = sorted(range(20), key=lambda i: hashlib.sha256(f"place {i}".encode()).hexdigest())
    parts = {"test": order[:4], "validation": order[4:7], "train": order[7:]}
    assert split_by_hash(groups, held) == {
        name: [2 * i + k for i in part for k in (0, 1)] for name, part in parts.items()
    }


def test_other_arrays_are_a_data_error(folder):
    for content in (arrays(X=numpy.array([{}], dtype=object))[0], b"PK no zip", b""):
        (folder / FILE).write_bytes(content)
        with pytest.raises(DataError, match="lacks one of the arrays"):
            data("sits", content).split("test")
    (folder / FILE).unlink()
    with pytest.raises(DataError, match=r"was not found in .*github\.com/e-sensing"):
        data("sits", content).split("test")
    with pytest.raises(RequestError, match="no layout"):
        task_data(
            registry.load_registry().all_tasks["sits"].model_copy(update={"layout": "rows"}), data("sits", b"").dataset
        )


def test_figures_of_other_data_are_not_set_beside_these():
    tasks = {key for key, task in registry.load_registry().all_tasks.items()
             if registry.load_registry().datasets[task.dataset].proxy_for}  # fmt: skip
    assert tasks == {
        "nmnist-small", "sits", "sits-steps", "toxic-parts", "toxic-parts-diluted", "toxic-parts-late", "toxic-parts-long",
        "toxic-parts-short", "wikitext2-bytes", "wikitext2-words",
    }  # fmt: skip
    assert all(not model.reported for model in registry.models().values() if model.task in tasks)


@pytest.mark.data
def test_the_real_series():
    known = registry.load_registry()
    real = task_data(known.all_tasks["sits"], known.datasets["mato-grosso"])
    splits = [real.split(name) for name in ("train", "validation", "test")]
    assert sum(map(len, splits)) == 1892
    assert sum(split.targets.bincount(minlength=9) for split in splits).sum() == 1892
    assert all(split.targets.unique().tolist() == list(range(9)) for split in (splits[0], splits[2]))
