"""Runs that are trained again from scratch."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hubs import Run

from zoo.errors import RequestError

NAME = "rnn-1x8-mnist-rows"


def test_a_run_is_repeated_to_the_bit(small_zoo: Callable[..., Path], run: Run, tmp_path: Path) -> None:
    from benchmarks import repeated

    small_zoo({"epochs": 2})
    with pytest.raises(RequestError, match=f"{NAME} has no history"):
        repeated.main([NAME])
    assert run("train", NAME, "--out", str(tmp_path / "run"), "--device", "cpu", "--seed", "3")[0] == 0
    assert run("eval", str(tmp_path / "run"), "--record", "--device", "cpu")[0] == 0
    assert run("release", str(tmp_path / "run"), "--results")[0] == 0
    repeated.main([NAME, "--out", str(tmp_path / "repeated.json")])
    written = json.loads((tmp_path / "repeated.json").read_text())
    assert written["machine"]["command"] == f"python -m benchmarks.repeated {NAME}"
    (row,) = written["rows"]
    assert row["seed"] == 3
    assert row["repeated"] == row["recorded"]
    assert not row["collapsed"]
