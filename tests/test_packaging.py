"""A wheel carries what an editable install finds beside the code: registry, cards, weights, data, command line, scans."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from zoo.publishing import starters
from zoo.registry import lock

ROOT = Path(__file__).resolve().parent.parent
PROBE = """
from pathlib import Path
import zoo
from zoo.utils import paths
assert "site" in str(paths.ROOT), paths.ROOT
network = zoo.load("gru-1x128-mnist-rows", device="cpu")
from zoo.training.evaluation import evaluate
assert evaluate("gru-1x128-mnist-rows", limit=200, device="cpu").value > 0.9
"""


def test_a_wheel_carries_the_starters_and_what_the_hub_lacks() -> None:
    pins = {"weights": {
        "star-16x64-pmnist": {"revision": "a" * 40, "files": {"model.safetensors": {}, "config.json": {}}},
        "lstm-4x128-pmnist": {"revision": "a" * 40, "files": {"model.safetensors": {}, "config.json": {}}},
        "gru-4x128-pmnist": {"files": {"model.safetensors": {}, "config.json": {}}},
    }}  # fmt: skip
    assert starters.left_out(pins) == ["lstm-4x128-pmnist/model.safetensors"]
    pinned = lock.load_lock().weights
    assert sum(file.size for name in starters.STARTERS for file in pinned[name].files.values()) < 8_000_000


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [True, False], ids=["a compiler", "no compiler"])
def test_wheel(tmp_path: Path, compiler: bool) -> None:
    """Builds with the declared build requirements (from the package index), and runs from an unpacked copy."""
    source = tmp_path / "source"  # without what earlier builds have left
    unwanted = shutil.ignore_patterns(".*", "build", "*.egg-info", "*.so", "runs", "__pycache__")
    shutil.copytree(ROOT, source, ignore=unwanted)
    stale = (
        source / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "zoo/assets/cards/gone"
    )
    stale.mkdir(parents=True)
    (stale / "README.md").touch()
    pins = json.loads((source / "cards" / "lock.json").read_bytes())
    pins["weights"]["lstm-4x128-pmnist"]["revision"] = "a" * 40  # as if it were on the Hub
    (source / "cards" / "lock.json").write_text(json.dumps(pins))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-v", "-w", str(tmp_path), str(source)]
    environment = {**os.environ, **({} if compiler else {"CC": "false", "CXX": "false"})}
    built = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    assert ("was not built" in built.stdout + built.stderr) != compiler
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(site)
    weights = {name: f"zoo/assets/cards/{name}/model.safetensors" for name in ("lstm-4x128-pmnist", "gru-4x128-pmnist")}
    assert {"cli/main.py", "zoo/assets/cards/gone/README.md", weights["lstm-4x128-pmnist"]}.isdisjoint(names)
    assert {weights["gru-4x128-pmnist"], "zoo/publishing/template/registry.yaml"} <= names
    assert {"rnnzoo_cli/main.py", "zoo/assets/registry.yaml", "zoo/assets/cards/lock.json", "zoo/py.typed"} <= names
    assert any(name.startswith("zoo/networks/kernels/scan_") for name in names) == compiler
    run = {"cwd": tmp_path, "env": {"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}, "check": True}
    subprocess.run([sys.executable, "-c", PROBE], **run)
    listed = subprocess.run([sys.executable, "-m", "rnnzoo_cli", "list"], capture_output=True, text=True, **run)
    assert "star-16x64-pmnist" in listed.stdout
