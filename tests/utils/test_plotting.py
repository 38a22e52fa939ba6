"""Pictures: the same bytes whenever they are drawn."""

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
