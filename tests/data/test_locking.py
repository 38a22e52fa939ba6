"""Digests of datasets in cards/lock.json: files without one are refused, release writes them, and changed files are noticed."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import clear_caches

from zoo import examples, registry
from zoo.data import digests_of, task_data
from zoo.errors import DataError, UnknownNameError
from zoo.publishing import release
from zoo.registry import load_lock, lock
from zoo.utils import paths

Zoo = Callable[..., Path]
TRAINING_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")


def forget(name: str) -> None:
    """Take a dataset's digests out of the lock."""
    lock.update(lambda old: old.model_copy(update={"datasets": {k: v for k, v in old.datasets.items() if k != name}}))
    clear_caches()


def test_a_file_without_a_digest_is_refused_with_the_command_that_locks_it(small_zoo: Zoo) -> None:
    small_zoo()
    forget("mnist")
    for name in ("train", "test"):
        with pytest.raises(DataError, match=r"has no digest in cards/lock\.json\. To lock it: rnnzoo release DATASET"):
            examples("mnist-rows", name)


def test_locking_writes_the_digests_of_the_files(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    before = dict(load_lock().datasets["mnist"])
    others = {name: digests for name, digests in load_lock().datasets.items() if name != "mnist"}
    forget("mnist")
    digests = release.lock_dataset("mnist")
    assert digests == before == load_lock().datasets["mnist"]
    for name in TRAINING_FILES:
        content = (tmp_path / "data" / "mnist" / name).read_bytes()
        assert digests[name] == hashlib.sha256(content).hexdigest()
    assert {name: value for name, value in load_lock().datasets.items() if name != "mnist"} == others
    assert lock.read(paths.path(*lock.FILE)).datasets["mnist"] == digests
    assert len(examples("mnist-rows", "train")) == 160


def test_a_changed_file_is_refused_until_it_is_locked_again(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    path = tmp_path / "data" / "mnist" / TRAINING_FILES[0]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="sha256 differs"):
        examples("mnist-rows", "train")
    assert release.lock_dataset("mnist")[TRAINING_FILES[0]] == hashlib.sha256(content).hexdigest()
    assert len(examples("mnist-rows", "train")) == 160


def test_generated_data_have_a_digest_for_each_split() -> None:
    assert digests_of("circles") == load_lock().datasets["circles"]


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
