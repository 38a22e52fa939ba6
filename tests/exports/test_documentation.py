"""The examples of docs/export.md, in Python, C and JavaScript, run as they are printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from zoo import export, load
from zoo.exports.formats import FORMATS

NAME = "lstm-1x128-mnist-rows"
PAGE = Path(__file__).parent.parent.parent / "docs" / "export.md"


def example(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S)
    return code


def run(folder: Path, *command: str) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def close_to_torch(printed: str) -> None:
    with torch.no_grad():
        expected = load(NAME, device="cpu")(torch.zeros(1, 28, 28))[0]
    torch.testing.assert_close(torch.tensor([float(line) for line in printed.split()]), expected, atol=1e-4, rtol=0)


def test_python(tmp_path: Path) -> None:
    export(NAME, "onnx", graph="both", out=tmp_path)
    (tmp_path / "example.py").write_text(example("python"))
    run(tmp_path, sys.executable, "example.py")


@pytest.mark.skipif("c" not in FORMATS or not shutil.which("cc"), reason="needs a C compiler")
def test_c(tmp_path: Path) -> None:
    export(NAME, "c", out=tmp_path)
    (tmp_path / "example.c").write_text(example("c"))
    run(tmp_path, "cc", "-std=c99", "-O1", "example.c", "-lm", "-o", "example")
    close_to_torch(run(tmp_path, "./example"))


@pytest.mark.skipif(
    "wasm" not in FORMATS or not all(map(shutil.which, ("clang", "wasm-ld", "node"))), reason="needs clang and node"
)
def test_javascript(tmp_path: Path) -> None:
    export(NAME, "wasm", out=tmp_path)
    (tmp_path / "example.mjs").write_text(example("javascript"))
    close_to_torch(run(tmp_path, "node", "example.mjs"))


def test_every_format_is_in_the_table() -> None:
    assert {f"| `{name}` |" for name in FORMATS} <= set(re.findall(r"^\| `\w+` \|", PAGE.read_text(), re.M))
