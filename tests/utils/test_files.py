"""Files, locks and signals."""

import errno
import fcntl
import signal
import threading
import time
from pathlib import Path

import pytest

from zoo.errors import StorageError
from zoo.utils import files


def test_the_signal_after_the_last_that_is_counted_stops() -> None:
    with files.interruptions(most=1) as seen:
        signal.raise_signal(signal.SIGINT)
        assert seen() == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with files.exclusive_lock(tmp_path, seconds=0):
        pass


def test_a_place_without_permission_is_found_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_writable(tmp_path / "new" / "folder")
    monkeypatch.setattr(files.os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(PermissionError) as error:
        files.check_writable(tmp_path / "new" / "folder")
    assert error.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        files.check_writable(tmp_path / "file" / "folder")


def test_files_are_written_together_into_a_new_folder(tmp_path: Path) -> None:
    files.write_together(tmp_path / "new", {"a": b"1", "b": b""})
    assert {path.name: path.read_bytes() for path in (tmp_path / "new").iterdir()} == {"a": b"1", "b": b""}
    assert files.obstacle(tmp_path / "new" / "a" / "b") == tmp_path / "new" / "a"
    assert files.obstacle(tmp_path / "new" / "c") is None


def test_a_name_that_is_too_long_is_the_one_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250)  # the partial file's is longer than the system allows
    with pytest.raises(OSError, match="too long") as error:
        files.atomic_write(path, b"")
    assert error.value.filename == str(path)
    assert str(error.value).endswith(f"{str(path)!r}")


def test_a_lock_is_waited_for_only_so_long(tmp_path: Path) -> None:
    with files.exclusive_lock(tmp_path):
        began = time.monotonic()
        with (
            pytest.raises(StorageError, match="Another process is at work in"),
            files.exclusive_lock(tmp_path, seconds=0.2),
        ):
            pass
        assert 0.2 <= time.monotonic() - began < 5

        def wait() -> None:
            with files.exclusive_lock(tmp_path, seconds=60):
                held.append(time.monotonic())

        held: list[float] = []
        waiting = threading.Thread(target=wait)
        waiting.start()
        released = time.monotonic()
    waiting.join(60)
    assert held
    assert held[0] >= released
