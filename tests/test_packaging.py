"""A wheel carries what an editable install finds beside the code: registry, cards, weights, data, command line, scans."""

import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from zoo.networks.kernels.interface import library
from zoo.publishing import starters

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
    files = {"model.safetensors": {"size": 1000}, "config.json": {"size": 10}}
    large, revision = {"model.safetensors": {"size": 5_000_000}}, "a" * 40
    pins = {
        "star-16x64-pmnist": {"revision": revision, "files": files},
        "gru-1x200-spooky": {"revision": revision, "files": large},
        "lstm-4x128-pmnist": {"revision": revision, "files": files},
        "gru-4x128-pmnist": {"files": files},
    }
    assert starters.left_out({"weights": pins}) == [
        "star-16x64-pmnist/lattice.png",
        "gru-1x200-spooky/lattice.png", "gru-1x200-spooky/model.safetensors",
        "lstm-4x128-pmnist/lattice.png", "lstm-4x128-pmnist/model.safetensors",
    ]  # fmt: skip


def test_a_wheel_is_small_once_everything_is_published() -> None:
    locked = json.loads((ROOT / "cards" / "lock.json").read_bytes())
    for pin in locked["weights"].values():
        pin["revision"] = "a" * 40
    left_out, archive = set(starters.left_out(locked)), io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for folder in (ROOT / "cards", ROOT / "zoo"):
            for path in folder.rglob("*"):
                if (
                    path.is_file()
                    and str(path.relative_to(folder)) not in left_out
                    and path.suffix not in (".so", ".pyc")
                ):
                    wheel.write(path)
    assert archive.tell() < 9_000_000  # the scans are another 0.5 MB


def test_a_wheel_carries_every_file_that_the_code_reads() -> None:
    """What is no Python is declared as package data; the compiled scans' sources are those of an extension."""
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["zoo"]
    declared = {path for pattern in patterns for path in (ROOT / "zoo").glob(pattern)}
    others = {
        path for path in (ROOT / "zoo").rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc", ".so")
    }
    assert {str(path) for path in others - declared if "kernels" not in path.parts} == set()


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
        assert all(info.file_size < 2_000_000 for info in archive.infolist() if info.filename.endswith(".so"))
        archive.extractall(site)
    weights = {name: f"zoo/assets/cards/{name}/model.safetensors" for name in ("lstm-4x128-pmnist", "gru-4x128-pmnist")}
    assert {"cli/main.py", "zoo/assets/cards/gone/README.md", weights["lstm-4x128-pmnist"]}.isdisjoint(names)
    assert {weights["gru-4x128-pmnist"], "zoo/publishing/template/registry.yaml"} <= names
    assert {
        "rnnzoo_cli/main.py",
        "zoo/assets/registry.yaml",
        "zoo/assets/sources.yaml",
        "zoo/assets/cards/lock.json",
        "zoo/py.typed",
    } <= names
    assert any(name.startswith("zoo/networks/kernels/scan_") for name in names) == compiler
    run = {"cwd": tmp_path, "env": {"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}, "check": True}
    subprocess.run([sys.executable, "-c", PROBE], **run)
    listed = subprocess.run([sys.executable, "-m", "rnnzoo_cli", "list"], capture_output=True, text=True, **run)
    assert "star-16x64-pmnist" in listed.stdout


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_use_the_runner_in_steps_only_and_ignore_no_failure(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    assert jobs
    for job in jobs.values():
        assert "runner." not in json.dumps({key: value for key, value in job.items() if key != "steps"})
        assert not any("||" in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("browser", [None, "chromium", "google-chrome"])
def test_the_checks_say_when_they_leave_out_the_browser(tmp_path: Path, browser: str | None) -> None:
    for name in ("make", *([browser] if browser else [])):
        (tmp_path / name).write_text('#!/bin/sh\necho "made $*"\n')
        (tmp_path / name).chmod(0o755)
    for name in ("dirname", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    bash, environment = str(shutil.which("bash")), {"PATH": str(tmp_path)}
    done = subprocess.run([bash, ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=True)
    assert ("made test-site" in done.stdout) == (browser is not None)
    assert ("test-site was skipped" in done.stderr) == (browser is None)


def test_the_compiled_scans_are_there_to_be_tested() -> None:
    assert library() is not None or shutil.which("c++") is None
