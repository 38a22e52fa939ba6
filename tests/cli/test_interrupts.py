"""The entry point: Ctrl-C and SIGTERM, whatever is being imported at that moment, and the end of one process of several."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
KILLS = [f"import os, signal; os.kill(os.getpid(), signal.{name})" for name in ("SIGINT", "SIGTERM")]
each_signal = pytest.mark.parametrize("kill", KILLS)
RUN = "import sys, types; sys.modules['rnnzoo_cli.main'] = types.SimpleNamespace(main={}); from rnnzoo_cli.__main__ import main; {}main()"


def run(code: str, folder: Path) -> tuple[int, str, str]:
    path = f"import sys; sys.path[:0] = [{str(folder)!r}]; "
    done = subprocess.run([sys.executable, "-c", path + code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@each_signal
@pytest.mark.parametrize("catches", ["BaseException", "ImportError"])
def test_an_import_that_is_interrupted_ends_at_once(tmp_path: Path, catches: str, kill: str) -> None:
    (tmp_path / "swallows.py").write_text(f"try:\n    {kill}\nexcept {catches}:\n    pass\nprint('went on')\n")
    assert run(RUN.format("lambda: __import__('swallows')", ""), tmp_path) == (130, "", "")


@each_signal
def test_other_work_that_is_interrupted_can_clean_up(tmp_path: Path, kill: str) -> None:
    work = f"def work():\n    try:\n        {kill}\n    finally:\n        print('clean')\n"
    (tmp_path / "works.py").write_text(work)
    assert run("import works; " + RUN.format("works.work", ""), tmp_path) == (130, "clean\n", "")


@each_signal
def test_files_in_the_making_are_removed_when_an_import_is_interrupted(tmp_path: Path, kill: str) -> None:
    (tmp_path / "kills.py").write_text(kill)
    work = (
        "from pathlib import Path\nfrom zoo.utils.files import scratch_folder\n"
        f"def work():\n    with scratch_folder(Path({str(tmp_path)!r}), '.export-') as folder:\n"
        "        (folder / 'half').write_text('')\n        import kills\n"
    )
    (tmp_path / "works.py").write_text(work)
    assert run("import works; " + RUN.format("works.work", ""), tmp_path) == (130, "", "")
    assert list(tmp_path.glob(".export-*")) == []


@each_signal
def test_an_ignored_signal_stays_ignored(tmp_path: Path, kill: str) -> None:
    ignore = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)]; "
    (tmp_path / "works.py").write_text(f"def work():\n    {kill}\n    print('went on')\n")
    assert run("import works; " + RUN.format("works.work", ignore), tmp_path) == (0, "went on\n", "")


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("given", [None, 0, 2])
def test_one_process_of_several_exits_without_finalizing_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int | None, processes: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    work = (
        "import atexit, sys\ndef work():\n    atexit.register(print, 'late')\n"
        f"    print('found')\n    print('said', file=sys.stderr)\n    sys.exit({given})\n"
    )
    (tmp_path / "works.py").write_text(work)
    out = "found\n" if processes > 1 else "found\nlate\n"
    assert run("import works; " + RUN.format("works.work", ""), tmp_path) == (given or 0, out, "said\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_of_one_process_of_several_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "works.py").write_text("import sys\ndef work():\n    print('found')\n    sys.exit(0)\n")
    with open("/dev/full", "w") as full:
        code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}]; import works; " + RUN.format("works.work", "")
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=full, timeout=60).returncode == 1
