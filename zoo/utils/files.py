"""Files that are never half written, their digests, and folders that one process has to itself."""

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import StorageError

try:
    import fcntl
except ImportError:  # there are no such locks
    fcntl = None  # type: ignore[assignment]


def atomic_write(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder; at every moment the old or the new file is there, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")  # of this call's own
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None  # a full disk would be of no file
        raise
    finally:
        partial.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_partials(path: Path) -> None:
    """Remove what processes left that were killed while they wrote `path`."""
    for abandoned in path.parent.glob(f".{path.name}.*.partial"):
        abandoned.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(folder: Path, wait: bool = True) -> Iterator[None]:
    """While no other process of this machine is in here for this folder, where there are such locks.

    Raises StorageError, unless it shall wait, if one is.
    """
    if fcntl is None:
        yield
        return
    at = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(at, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"Another process is at work in {folder}. Wait until it is done.") from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):  # of file systems without locks
                raise
        yield
    finally:
        os.close(at)
