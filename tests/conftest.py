"""A small zoo of its own: a few tiny models and recipes, and a training set cut from the packaged test images."""

import copy
import gzip
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

os.environ.pop("HF_TOKEN", None)
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ |= {"_TYPER_FORCE_DISABLE_TERMINAL": "1", "COLUMNS": "120"}  # messages without colours and in whole lines

from hubs import here, hub_server, template  # noqa: F401, fixtures
from rnnzoo_cli import main as cli
from ruamel.yaml import YAML

from zoo import registry
from zoo.data import mnist
from zoo.networks import builder
from zoo.registry.schema import Registry
from zoo.utils import paths

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job, and all it starts, would ignore it

RECIPE = {"optimizer": {"name": "adam", "lr": 0.01}, "batch": 20, "epochs": 3, "clip": 1.0}
TRAIN, VALIDATION = 160, 40


@pytest.fixture(autouse=True, scope="session")
def _parsed_once() -> Any:
    """Reading a registry takes half a second, and hundreds of tests come back to the same ones: a few are remembered."""
    read, known = registry.read, dict[bytes, Registry]()

    def remembered(path: Path) -> Registry:
        content = path.read_bytes() if path.is_file() else b""
        found = known.pop(content, None) or read(path)  # what is refused is not remembered
        known[content] = found
        if len(known) > 10:
            del known[next(iter(known))]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "read", remembered)
        yield


@pytest.fixture(autouse=True)
def _own_registry() -> Any:
    """What a test has read of another registry is forgotten after it."""
    ours = registry.registry()
    yield
    if registry.registry() is not ours:
        for cached in (registry.registry, registry.models, builder.counts):
            cached.cache_clear()


@cache
def declared() -> dict[str, Any]:
    """What registry.yaml says, in lists and dictionaries."""
    return YAML(typ="safe", pure=True).load((Path(__file__).parent.parent / "registry.yaml").read_text())


@pytest.fixture
def small_zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a zoo with model rnn-1x8-mnist-rows trained by `recipe`, and use it, here and in subprocesses.

    Returns a function of recipe fields and model fields to change; its value is the zoo's folder.
    """

    def make(recipe: dict[str, Any] | None = None, **model: Any) -> Path:
        root = tmp_path / "own"
        data = copy.deepcopy(declared())
        data["recipes"]["small"] = {**RECIPE, **(recipe or {})}
        entry = {"cell": "rnn", "layers": 1, "units": 8, "task": "mnist-rows", "recipe": "small", **model}
        ways = "bi" if entry.get("bidirectional") else ""
        data["models"] = {f"{ways}{entry['cell']}-{entry['layers']}x{entry['units']}-{entry['task']}": entry}
        data["grids"], data["weights"] = {}, {}
        dataset = data["datasets"]["mnist"]
        dataset["validation"] = VALIDATION
        (tmp_path / "data" / "mnist").mkdir(parents=True, exist_ok=True)
        for kind, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            content = gzip.decompress((mnist.PACKAGED / f"t10k-{kind}-ubyte.gz").read_bytes())
            n = TRAIN + VALIDATION
            content = content[:4] + n.to_bytes(4, "big") + content[8 : head + n * size]
            (tmp_path / "data" / "mnist" / f"train-{kind}-ubyte").write_bytes(content)
            dataset["sha256"][f"train-{kind}-ubyte"] = hashlib.sha256(content).hexdigest()
        root.mkdir(exist_ok=True)
        with (root / "registry.yaml").open("w") as file:
            YAML(typ="safe", pure=True).dump(data, file)
        monkeypatch.setattr(paths, "ROOT", root)
        monkeypatch.setenv("RNNZOO_ROOT", str(root))
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
        for cached in (registry.registry, registry.models, builder.counts):
            cached.cache_clear()
        return root

    return make


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command line in this process; exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rnnzoo", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call
