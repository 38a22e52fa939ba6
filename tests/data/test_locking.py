"""Locking the digests of datasets: what is read for it, what is written, and what leaves the lock as it is."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import examples, registry
from zoo.data import facts_of, task_data
from zoo.errors import DataError, UnknownNameError
from zoo.publishing import release
from zoo.registry import load_lock, lock
from zoo.utils import paths

Zoo = Callable[..., Path]
IMAGES = "train-images-idx3-ubyte"


def test_a_changed_file_is_refused_until_it_is_locked_again(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    path = tmp_path / "data" / "mnist" / IMAGES
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    others = {name: digests for name, digests in load_lock().datasets.items() if name != "mnist"}
    with pytest.raises(DataError, match="sha256 differs"):
        examples("mnist-rows", "train")
    assert release.lock_dataset("mnist")[IMAGES] == hashlib.sha256(content).hexdigest()
    assert len(examples("mnist-rows", "train")) == load_lock().splits["mnist-rows"]["train"] == 160
    assert {name: digests for name, digests in load_lock().datasets.items() if name != "mnist"} == others


def test_generated_data_have_a_digest_for_each_split() -> None:
    digests, sizes = facts_of("circles")
    assert digests == load_lock().datasets["circles"]
    assert sizes == {name: load_lock().splits[name] for name in sizes}


def test_the_sizes_of_splits_are_locked() -> None:
    locked, tasks = load_lock().splits, registry.load_registry().all_tasks
    to_request = {"jester"}  # datasets that are given out on request only
    assert set(locked) == {name for name, task in tasks.items() if not task.absent and task.dataset not in to_request}
    for name, sizes in locked.items():
        assert set(sizes) == {"train", "validation", "test"}, name
    assert locked["smnist"] == {"train": 55_000, "validation": 5_000, "test": 10_000}
    assert sum(locked["nottingham"].values()) == 694 + 170 + 173


def test_a_dataset_that_is_unknown_or_missing_is_not_locked(
    small_zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo()
    before = paths.path(*lock.FILE).read_bytes()
    with pytest.raises(UnknownNameError, match="Did you mean mnist"):
        release.lock_dataset("mnit")
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "nowhere"))
    for name in ("mnist", "glove-6b-100"):
        with pytest.raises(DataError, match="was not found"):
            release.lock_dataset(name)
    assert paths.path(*lock.FILE).read_bytes() == before


def test_a_layout_is_known_before_anything_is_locked() -> None:
    """The layouts of bAbI are the names of its files, and are not taken from the digests."""
    known = registry.load_registry()
    unlocked = known.datasets["babi"].model_copy(update={"sha256": {}})
    for task in known.all_tasks.values():
        if task.dataset == "babi":
            assert task_data(task, unlocked).task is task
