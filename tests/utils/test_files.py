"""Files, locks and signals."""

import errno
import fcntl
import signal
from pathlib import Path

import pytest

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
    with files.exclusive_lock(tmp_path, wait=False):
        pass
