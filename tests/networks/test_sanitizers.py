"""The compiled scans under AddressSanitizer and UndefinedBehaviorSanitizer: their own tests, in a copy built for both."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
TESTS = ("compiled", "compiled_gradients", "compiled_fallback", "diagonal", "outer", "streaming", "checkpoint_every")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_no_scan_reads_or_writes_outside_its_memory(tmp_path: Path) -> None:
    for name in ("zoo", "cli", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("cards", "registry.yaml", "sources.yaml", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    settings = {**os.environ, "PYTHONPATH": f"{tmp_path}", "OMP_NUM_THREADS": "1"}
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    flags = {"CFLAGS": f"{SANITIZE} -g", "LDFLAGS": SANITIZE}
    subprocess.run(build, cwd=tmp_path, env=settings | flags, check=True)
    assert list(tmp_path.glob("zoo/networks/kernels/*.so"))

    # the interceptor of exceptions looks for libstdc++ when it is loaded, which is before torch loads it
    paths = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    options = {"LD_PRELOAD": ":".join(paths), "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-p",
        "no:cacheprovider",
        "--capture=sys",
    ]  # a report goes to the descriptor
    command += ["-k", "not no_more_threads and not short_memory"]  # a sanitizer ends a process that lacks memory
    command += [f"tests/networks/test_{name}.py" for name in TESTS]
    result = subprocess.run(command, cwd=tmp_path, env=settings | options, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[:4000]
