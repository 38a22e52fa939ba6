"""Pictures: the same bytes whenever they are drawn, and an older picture stays if there is no room for the new one."""

import os
from pathlib import Path

import pytest

from zoo.utils import plotting


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_has_no_date(tmp_path: Path, ending: str) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    plotting.save(figure, tmp_path / f"a.{ending}", "mark")
    content = (tmp_path / f"a.{ending}").read_bytes()
    assert b"mark" in content
    assert b"dc:date" not in content


def test_a_picture_that_cannot_be_written_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    path = tmp_path / "a.png"
    path.write_bytes(b"older")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        plotting.save(figure, path, "mark")
    assert error.value.filename == str(path)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"older"]
