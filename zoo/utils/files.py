"""Atomic file writes, digests, and locks that give one process exclusive use of a folder."""

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
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


def atomic_write(path: Path, content: bytes) -> None:
    """Replace the file at `path`, creating its folder if needed. Readers see either the old file or the new one, whole.

    Raises OSError that names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")  # unique, so that writers do not collide
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None  # a full disk gives no name
        raise
    finally:
        partial.unlink(missing_ok=True)


def remove_partials(path: Path) -> None:
    """Remove the partial files of processes that were killed during `atomic_write(path, ...)`."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        partial.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Return the sha256 of a file's content in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive_lock(folder: Path, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on `folder`; with wait=False raise StorageError if another process holds it.

    The lock binds processes of this machine only, and nothing is locked where the system or the file system has no locks.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(f"Another process is at work in {folder}. Wait until it is done.") from error
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):  # the file system has no locks
                raise
        yield
    finally:
        os.close(descriptor)
