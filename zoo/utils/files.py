"""Safe reading and writing of files: atomic writes, digests, locks on folders, and signals that wait for a file."""

import errno
import hashlib
import math
import os
import secrets
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from ..errors import RequestError, StorageError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]


_SCRATCH: set[str] = set()  # the folders of `scratch_folder` that exist


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Create a folder in `parent` for files in the making; remove it in the end, with what is still in it.

    Raises OSError, whose `filename` is `parent`, if the folder cannot be created.
    """
    try:
        scratch = tempfile.TemporaryDirectory(prefix=prefix, dir=parent)
    except OSError as error:
        error.filename = os.fspath(parent)
        raise
    with scratch as name:
        _SCRATCH.add(name)
        try:
            yield Path(name)
        finally:
            _SCRATCH.discard(name)


def remove_scratch() -> None:
    """Remove the folders of `scratch_folder`, before a process ends at once."""
    for name in _SCRATCH:
        shutil.rmtree(name, ignore_errors=True)


def obstacle(folder: Path) -> Path | None:
    """Return the file, or the link to nothing, that stands where `folder` or one of its parents would be; None without one."""
    return next((path for path in (folder, *folder.parents) if os.path.lexists(path) and not path.is_dir()), None)


def check_writable(folder: Path) -> None:
    """Raise OSError if the user may not write to `folder` or, where there is none, create it: before long work."""
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(place))
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(place))


def check_target(path: Path) -> None:
    """Raise an error if a file cannot be written to `path`: before long work.

    Raises RequestError if a folder has that name, or something is in the way of its folder, and StorageError if the user may not
    write there.
    """
    if place := path if path.is_dir() else obstacle(path.parent):
        raise RequestError(f"{path} cannot be written: {place} is in the way. Move it, or write elsewhere.")
    try:
        check_writable(path.parent)
    except PermissionError as error:
        place = Path(error.filename).absolute()
        raise StorageError(f"{path} cannot be written: you may not write to {place}. Write elsewhere.") from error


def atomic_write(path: Path, content: bytes) -> None:
    """Write `content` to `path`, creating the folder if needed. Readers see the whole old file or the whole new file.

    Raises OSError, whose `filename` is `path`.
    """
    write_together(path.parent, {path.name: content})


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into `folder`, creating it if needed. None takes the place of an older one until all are on the disk.

    contents: by name. Raises OSError, whose `filename` is the path of the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partials: dict[Path, Path] = {}
    try:
        for name, content in contents.items():
            path = folder / name
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            unique = secrets.token_hex(4)  # so that writers do not collide
            partials[path] = path.with_name(f".{path.name}.{unique}.partial")
            with partials[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            os.replace(partial, path)
    except OSError as error:
        error.filename = os.fspath(path)  # if the disk is full, the system names no file
        del error.filename2  # the partial file; with None, the message would end in "-> None"
        raise
    finally:
        for partial in partials.values():
            with suppress(OSError):
                partial.unlink()


def remove_partials(path: Path) -> None:
    """Remove the partial files that processes left when they were killed while writing `path`."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        partial.unlink(missing_ok=True)


def open_regular(path: Path) -> BufferedReader:
    """Return the regular file at `path`, opened for reading in binary mode.

    Raises OSError, also for a pipe or a device, because their bytes may never come or never end.
    """
    # without O_NONBLOCK, opening a pipe would wait for its writer
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes. Raises OSError, also for a longer file, a pipe or a device."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", os.fspath(path))
    return content


def has_content(path: Path, content: bytes) -> bool:
    """Return whether the file at `path` has this content. Raises OSError, also for a pipe or a device."""
    with open_regular(path) as file:
        return file.read(len(content) + 1) == content


def sha256(path: Path) -> str:
    """Return the sha256 of a file's content in hexadecimal. Raises OSError."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive_lock(folder: Path, seconds: float = math.inf) -> Iterator[None]:
    """Hold an exclusive lock on `folder` within the block. On Windows and on file systems without locks, do nothing.

    If another process of this machine holds the lock, wait for that process. Raises StorageError after `seconds`, and OSError
    if there is no such folder.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        latest = time.monotonic() + seconds
        try:
            while not _locked(descriptor, block=seconds == math.inf):
                if time.monotonic() >= latest:
                    raise StorageError(f"Another process is at work in {folder}. Wait until that process ends.")
                time.sleep(0.05)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL):  # the file system has no locks
                raise
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int, block: bool) -> bool:
    """Lock an open folder, and return whether that succeeded. block: wait until it does."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if block else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Call `handler` for signals `numbers` within the block. Outside the main thread, where Python forbids it, do nothing."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in numbers if main}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def interruptions(most: float = math.inf) -> Iterator[Callable[[], int]]:
    """Count SIGINT and SIGTERM within the block instead of stopping, and yield a function that returns the count so far.

    most: the number of signals to count; each later signal raises KeyboardInterrupt.
    """
    seen: list[int] = []

    def handle(number: int, frame: object) -> None:
        if len(seen) >= most:
            raise KeyboardInterrupt
        seen.append(number)

    with handled(handle, signal.SIGINT, signal.SIGTERM):
        yield lambda: len(seen)
