"""Fixtures for tests of the Hub: a loopback server, and a small zoo whose models can be pushed there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import _http
from loopback import WRITE, Loopback
from small import declared

from zoo import registry
from zoo.cells import CELLS
from zoo.checkpoints import configs, results, sources, tensors
from zoo.checkpoints.hub import client
from zoo.checkpoints.hub.digests import pinned
from zoo.checkpoints.hub.upload import PushOptions
from zoo.networks import golden, loading
from zoo.networks.builder import build
from zoo.publishing import cards
from zoo.registry import load_lock, lock
from zoo.registry.schema import Pin
from zoo.training import evaluation
from zoo.utils import paths

NAME, OTHER = "rnn-1x8-mnist-rows", "gru-1x8-mnist-rows"
REPO = f"rnnzoo/{NAME}"
PINNED = [configs.GOLDEN, configs.FILE, tensors.FILE]
PUSHED = {*PINNED, "README.md", "results.json"}
ROOT = Path(__file__).parent.parent


def small_registry() -> dict[str, object]:
    """Return a registry of two small models of row-by-row MNIST, with the real task and dataset."""
    data = declared()
    task = {**data["task_grids"]["mnist"]["shared"], **data["task_grids"]["mnist"]["tasks"]["mnist-rows"]}
    recipe = {"optimizer": {"name": "adam", "lr": 0.01}, "batch_size": 20, "epochs": 1}
    entry = {"layers": 1, "units": 8, "task": "mnist-rows", "recipe": "r"}
    return {
        "papers": {CELLS[cell].paper: data["papers"][CELLS[cell].paper] for cell in ("rnn", "gru")}, "datasets": {task["dataset"]: data["datasets"][task["dataset"]]},
        "tasks": {"mnist-rows": task},
        "studies": {"small": {
            "title": "Small", "recipes": {"r": recipe},
            "models": {OTHER: {"cell": "gru", **entry}, NAME: {"cell": "rnn", **entry}},
        }},
    }  # fmt: skip


@pytest.fixture(scope="session")
def hub_server() -> Iterator[Loopback]:
    server = Loopback()
    yield server
    server.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo with two released and measured models and their cards, not on a Hub yet."""
    root = tmp_path_factory.mktemp("template")
    (root / "registry.yaml").write_text(json.dumps(small_registry()))
    digests = {"mnist": load_lock().datasets["mnist"]}
    before, paths.ROOT = paths.ROOT, root
    registry.clear_caches()
    try:
        lock.update(lambda old: old.model_copy(update={"datasets": digests}))
        for seed, name in enumerate((NAME, OTHER)):
            home = root / "cards" / name
            network = build(name, device="cpu", seed=seed).eval()
            loading.save(network, home)
            golden.write(network, home / golden.FILE)
            weights = {"repo": f"rnnzoo/{name}", "files": {file: pinned(home / file) for file in PINNED}}
            lock.pin(name, Pin.model_validate(weights))
            results.write(home, results.Results(evaluations=(evaluation.evaluate(name, device="cpu"),)))
        counts = {name: cards.counts(name) for name in (NAME, OTHER)}
        lock.update(lambda old: old.model_copy(update={"counts": counts}))
        for name in (NAME, OTHER):
            entry = registry.find(name)
            text = cards.render(entry)
            (root / "cards" / name / "README.md").write_text(text)
    finally:
        paths.ROOT = before
        registry.clear_caches()
    return root


@dataclass
class Here:
    """A machine with the small zoo, an empty cache, and the loopback server as its only Hub."""

    root: Path
    cache: Path
    hub: Loopback
    env: dict[str, str]
    slept: list[float] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    @property
    def card(self) -> Path:
        return self.root / "cards" / NAME

    @property
    def pull_options(self) -> sources.PullOptions:
        return sources.PullOptions(log=self.logged.append)

    def push_options(self, **options: object) -> PushOptions:
        return PushOptions(**{"log": self.logged.append, **options})

    def content(self, name: str = NAME) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / "cards" / name).iterdir()}

    def publish(self, name: str = NAME, keep: bool = False) -> str:
        """Put a model on the Hub and pin it, as an earlier push would. keep: leave its packaged copy."""
        commit = self.hub.add(f"rnnzoo/{name}", self.content(name))
        self.pin(commit, name)
        for file in () if keep else PINNED:
            (self.root / "cards" / name / file).unlink()
        return commit

    def pin(self, commit: str, name: str = NAME) -> None:
        files = registry.find(name).weights.files
        lock.pin(name, Pin(repo=f"rnnzoo/{name}", revision=commit, files=files))

    def blobs(self) -> list[Path]:
        """Every blob in the cache, complete or not."""
        return [path for path in self.cache.glob("hub/models--*/blobs/*") if path.is_file()]

    def spawn(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Run the command line in another process."""
        return subprocess.Popen(
            [sys.executable, "-m", "rnnzoo_cli", *arguments], env={**self.env, **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_interruptible,
        )  # fmt: skip


def _interruptible() -> None:
    """Undo the ignoring of SIGINT, which children inherit from a test run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture
def here(tmp_path: Path, template: Path, hub_server: Loopback, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """The small zoo for this process and its children, and the real client. Waiting is recorded in `slept`, not done."""
    root, cache = tmp_path / "zoo", tmp_path / "hf"
    shutil.copytree(template, root)
    hub_server.reset()
    settings = {
        "HF_ENDPOINT": hub_server.endpoint, "HF_HOME": str(cache), "HF_TOKEN": WRITE, "RNNZOO_ROOT": str(root),
        "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "HF_HUB_OFFLINE": "0",
    }  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 3)
    registry.clear_caches()
    machine = Here(root, cache, hub_server, {**os.environ})
    quick = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if not name.startswith("_")})
    quick.sleep = machine.slept.append
    for module in (_http, file_download, client):
        monkeypatch.setattr(module, "time", quick)
    yield machine
    huggingface_hub.close_session()
    registry.clear_caches()


Run = Callable[..., tuple[int, str, str]]
