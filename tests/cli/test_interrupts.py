"""Ctrl-C at the entry point, whatever is being imported at that moment."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
RUN = "import sys, types; sys.modules['rnnzoo_cli.main'] = types.SimpleNamespace(main={}); from rnnzoo_cli.__main__ import main; {}main()"


def run(code: str, folder: Path) -> tuple[int, str, str]:
    path = f"import sys; sys.path[:0] = [{str(folder)!r}]; "
    done = subprocess.run([sys.executable, "-c", path + code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("catches", ["BaseException", "ImportError"])
def test_an_import_that_is_interrupted_ends_at_once(tmp_path: Path, catches: str) -> None:
    (tmp_path / "swallows.py").write_text(f"try:\n    {KILL}\nexcept {catches}:\n    pass\nprint('went on')\n")
    assert run(RUN.format("lambda: __import__('swallows')", ""), tmp_path) == (130, "", "")


def test_other_work_that_is_interrupted_can_clean_up(tmp_path: Path) -> None:
    work = f"def work():\n    try:\n        {KILL}\n    finally:\n        print('clean')\n"
    (tmp_path / "works.py").write_text(work)
    assert run("import works; " + RUN.format("works.work", ""), tmp_path) == (130, "clean\n", "")


def test_files_in_the_making_are_removed_when_an_import_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "kills.py").write_text(KILL)
    work = (
        "from pathlib import Path\nfrom zoo.utils.files import scratch_folder\n"
        f"def work():\n    with scratch_folder(Path({str(tmp_path)!r}), '.export-') as folder:\n"
        "        (folder / 'half').write_text('')\n        import kills\n"
    )
    (tmp_path / "works.py").write_text(work)
    assert run("import works; " + RUN.format("works.work", ""), tmp_path) == (130, "", "")
    assert list(tmp_path.glob(".export-*")) == []


def test_an_ignored_interrupt_stays_ignored(tmp_path: Path) -> None:
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    (tmp_path / "works.py").write_text(f"def work():\n    {KILL}\n    print('went on')\n")
    assert run("import works; " + RUN.format("works.work", ignore), tmp_path) == (0, "went on\n", "")
