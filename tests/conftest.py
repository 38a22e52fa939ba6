"""A small zoo of its own: a few tiny models and recipes, and a training set cut from the packaged test images."""

import copy
import gzip
import hashlib
import json
import os
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

os.environ.pop("HF_TOKEN", None)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TRITON_INTERPRET", "1")  # before anything imports triton
os.environ |= {"_TYPER_FORCE_DISABLE_TERMINAL": "1", "COLUMNS": "120"}  # messages without colours and in whole lines

import torch
from hubs import here, hub_server, template  # noqa: F401, fixtures
from rnnzoo_cli import main as cli
from rnnzoo_cli import output
from small import RECIPE, TRAIN, VALIDATION, clear_caches, declared

from zoo import registry
from zoo.cells import own
from zoo.data import mnist
from zoo.registry import load_lock, lock
from zoo.utils import paths

torch.set_warn_always(True)  # a warning that torch gives once a process would fail whichever test comes first
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job, and all it starts, would ignore it


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make cases slow that are not among the sampled ones, and skip the tests of data that are not there."""
    kept = set()
    for item in items:
        name, _, _ = item.nodeid.partition("[")
        for mark in item.iter_markers("sampled"):
            if name in kept and zlib.crc32(item.nodeid.encode()) % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            kept.add(name)
    if "RNNZOO_DATA" not in os.environ:
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(pytest.mark.skip(reason="RNNZOO_DATA is not set"))


@pytest.fixture(scope="session", autouse=True)
def _read_once() -> Iterator[None]:
    """The package's own registry and lock, which no test changes, are read once and not again after each zoo of a test."""

    def remembering(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        kept = cache(read)

        def remembered(path: Path) -> Any:
            if not path.is_relative_to(paths.PACKAGED_ROOT):
                return read(path)
            own.declare({})  # as reading does: it declares no cells
            return kept(path)

        return remembered

    with pytest.MonkeyPatch.context() as patch:
        for module in (registry.reader, lock):
            patch.setattr(module, "read", remembering(module.read))
        yield


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    """What a test has read of another registry is forgotten after it."""
    ours = registry.load_registry()
    yield
    if registry.load_registry() is not ours:
        clear_caches()


@pytest.fixture
def small_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a zoo with model rnn-1x8-mnist-rows trained by `recipe`, and use it, here and in subprocesses.

    Returns a function of recipe fields and model fields to change; its value is the zoo's folder.
    """

    def make(recipe: dict[str, Any] | None = None, **model: Any) -> Path:
        root = tmp_path / "own"
        data = copy.deepcopy(declared())
        entry = {"cell": "rnn", "layers": 1, "units": 8, "task": "mnist-rows", "recipe": "small", **model}
        ways = "bi" if entry.get("bidirectional") else ""
        name = f"{ways}{entry['cell']}-{entry['layers']}x{entry['units']}-{entry['task']}"
        small = {"title": "Small", "recipes": {"small": {**RECIPE, **(recipe or {})}}, "models": {name: entry}}
        recipes = {key: value for study in data["studies"].values() for key, value in study["recipes"].items()}
        data["studies"] = {"small": small, "others": {"title": "Others", "recipes": recipes}}
        digests = dict(load_lock().datasets)
        dataset = data["datasets"]["mnist"]
        dataset["validation"] = VALIDATION
        (tmp_path / "data" / "mnist").mkdir(parents=True, exist_ok=True)
        for kind, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            content = gzip.decompress((mnist.PACKAGED / f"t10k-{kind}-ubyte.gz").read_bytes())
            n = TRAIN + VALIDATION
            content = content[:4] + n.to_bytes(4, "big") + content[8 : head + n * size]
            (tmp_path / "data" / "mnist" / f"train-{kind}-ubyte").write_bytes(content)
            digests["mnist"] = {**digests["mnist"], f"train-{kind}-ubyte": hashlib.sha256(content).hexdigest()}
        root.mkdir(exist_ok=True)
        (root / "registry.yaml").write_text(json.dumps(data))  # which is YAML too
        (root / "cards").mkdir(exist_ok=True)
        (root / "cards" / "lock.json").write_bytes(lock.dump(lock.Lock(datasets=digests)))
        monkeypatch.setattr(paths, "ROOT", root)
        monkeypatch.setenv("RNNZOO_ROOT", str(root))
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
        clear_caches()
        return root

    return make


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rnnzoo", *arguments])
        monkeypatch.setitem(output._printed, "json", False)  # as in a new process
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call
