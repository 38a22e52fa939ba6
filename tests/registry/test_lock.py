"""cards/lock.json: what programs write, read strictly, and never lost when two write at once."""

import json
import multiprocessing
from pathlib import Path

import pytest

from zoo import list_models, registry
from zoo.errors import RegistryError, StorageError
from zoo.registry import lock
from zoo.registry.schema import Pin
from zoo.utils import files, paths

PIN = {
    "repo": "owner/name",
    "revision": "b" * 40,
    "files": {"model.safetensors": {"sha256": "c" * 64, "size": 10}, "config.json": {"sha256": "d" * 64, "size": 11}},
}


def read(folder: Path, content: object) -> lock.Lock:
    path = folder / "lock.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return lock.read(path)


def test_the_shipped_lock_is_of_models_and_datasets_of_the_registry() -> None:
    locked = registry.load_lock()
    assert set(locked.counts) == set(registry.models())
    assert set(locked.weights) <= set(registry.models())
    assert set(locked.datasets) <= set(registry.load_registry().datasets)
    assert sorted(locked.weights) == list_models(pretrained=True)
    assert lock.dump(locked) == paths.path(*lock.FILE).read_bytes()


def test_no_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert lock.read(tmp_path / "lock.json") == lock.Lock()


def test_a_pin(tmp_path: Path) -> None:
    pinned = read(tmp_path, {"weights": {"star-1x2-t": PIN}}).weights["star-1x2-t"]
    assert (pinned.repo, pinned.files["model.safetensors"].size) == ("owner/name", 10)


@pytest.mark.parametrize(("part", "value"), [
    ("repo", "name"), ("repo", "../name"), ("repo", "/etc/x"), ("repo", "owner/na/me"), ("revision", "b" * 39),
    ("revision", "g" * 40), ("files", {"model.bin": PIN["files"]["config.json"]}), ("files", {}),
    ("files", {**PIN["files"], "../model.safetensors": PIN["files"]["config.json"]}),
    ("files", {"model.safetensors": PIN["files"]["model.safetensors"]}),
    *(("files", {**PIN["files"], "config.json": file}) for file in (
        {"sha256": "c" * 64}, {"sha256": "c" * 64, "size": 0}, {"sha256": "c" * 64, "size": 1_000_000_001},
        {"sha256": "c" * 64, "size": "10"}, {"sha256": "C" * 64, "size": 10}, {"sha256": "c" * 63, "size": 10},
    )),
])  # fmt: skip
def test_a_pin_that_is_not_a_pin(tmp_path: Path, part: str, value: object) -> None:
    with pytest.raises(RegistryError, match=r"lock\.json: weights\.star-1x2-t.*restore it from git"):
        read(tmp_path, {"weights": {"star-1x2-t": {**PIN, part: value}}})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"wieghts": {}}', '{"counts": {"a": [1, 2]}}', '{"datasets": {"d": {"f": "0"}}}']
)
def test_a_damaged_lock_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(RegistryError, match=r"lock\.json: "):
        read(tmp_path, text)


def test_a_lock_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="cannot be read"):
        lock.read(tmp_path)


def _pin(root: str, name: str) -> None:
    paths.ROOT = Path(root)
    for size in range(1, 21):
        files = {file: {"sha256": "a" * 64, "size": size} for file in ("model.safetensors", "config.json")}
        lock.pin(name, Pin.model_validate({"repo": "o/n", "files": files}))


def test_two_programs_that_write_at_once_both_have_their_way(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    programs = [context.Process(target=_pin, args=(str(tmp_path), name)) for name in ("a", "b")]
    for program in programs:
        program.start()
    for program in programs:
        program.join(120)
    locked = lock.read(tmp_path / "cards" / "lock.json")
    assert {name: pin.files["config.json"].size for name, pin in locked.weights.items()} == {"a": 20, "b": 20}


def test_a_pin_changes_nothing_else_and_says_whether_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    digests = {"d": {"file": "e" * 64}}
    assert lock.update(lambda old: old.model_copy(update={"datasets": digests}))
    assert lock.pin("star-1x2-t", Pin.model_validate(PIN))
    assert not lock.pin("star-1x2-t", Pin.model_validate(PIN))
    locked = lock.read(tmp_path / "cards" / "lock.json")
    assert (locked.datasets, list(locked.weights)) == (digests, ["star-1x2-t"])
    registry.clear_caches()


def test_nobody_else_writes_while_the_lock_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def change(old: lock.Lock) -> lock.Lock:
        with (
            pytest.raises(StorageError, match="Another process is at work"),
            files.exclusive_lock(tmp_path / "cards", seconds=0),
        ):
            pass
        return old

    assert not lock.update(change)


def test_what_was_written_is_what_is_read_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    registry.clear_caches()
    assert registry.load_lock() == lock.Lock()
    assert lock.pin("star-1x2-t", Pin.model_validate(PIN))
    assert list(registry.load_lock().weights) == ["star-1x2-t"]
    registry.clear_caches()
