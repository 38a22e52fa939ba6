"""Our models in the Hub client's cache: list and remove them. Models of other libraries there are left alone."""

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import registry
from ...errors import RequestError
from .. import configs
from ..reference import Reference
from .errors import storage_error
from .local import PREFIX, cache_root, folder

ABANDONED_HOURS = 1.0
"""Age, since the last write, at which a partial file is taken for that of a download that died."""


@dataclass(frozen=True)
class Cached:
    """One repository in the cache."""

    repo: str
    revisions: tuple[str, ...]
    """Commits."""
    pinned: bool
    """True if the commit that the registry pins is among them."""
    bytes: int
    partial: tuple[Path, ...]
    """Files of downloads that are under way or died."""
    unused: tuple[Path, ...]
    """Blobs that no revision refers to."""

    @property
    def partial_bytes(self) -> int:
        return sum(map(_size, self.partial))


@dataclass(frozen=True)
class Freed:
    """What was removed, or would be in a dry run."""

    paths: tuple[Path, ...]
    bytes: int


def contents() -> list[Cached]:
    """Return our repositories in the cache: those that the registry pins, and those whose config.json names this library."""
    root = cache_root().resolve()
    pins = {pin.repo: pin.revision for pin in registry.load_lock().weights.values()}
    repositories = []
    for place in sorted(root.glob(f"{PREFIX}*--*")) if root.is_dir() else ():
        repo = place.name.removeprefix(PREFIX).replace("--", "/", 1)
        if not place.is_symlink() and place.is_dir() and (repo in pins or _names_this_library(place)):
            repositories.append(_read(repo, place, pins.get(repo)))
    return repositories


def _read(repo: str, place: Path, pinned_commit: str | None) -> Cached:
    """The repository in the folder `place`, which has blobs/ and snapshots/COMMIT/ with links to them."""
    snapshots = place / "snapshots"
    revisions = tuple(sorted(path.name for path in snapshots.glob("*") if path.is_dir()))
    used = {path.resolve() for path in snapshots.rglob("*") if not path.is_dir()}
    blobs = [path for path in (place / "blobs").glob("*") if path.is_file()]
    partial = tuple(path for path in blobs if path.name.endswith(".incomplete"))
    unused = tuple(path for path in blobs if path not in partial and path not in used)
    return Cached(repo, revisions, pinned_commit in revisions, sum(map(_size, {*blobs, *used})), partial, unused)


def _names_this_library(place: Path) -> bool:
    """Whether a config.json in a repository's folder names this library."""
    for path in (place / "snapshots").glob(f"*/{configs.FILE}"):
        try:
            if path.stat().st_size <= configs.MAX_BYTES:
                data = json.loads(path.read_bytes())
                return isinstance(data, dict) and data.get("library") == "rnnzoo"
        except (OSError, ValueError, RecursionError):
            continue
    return False


def prune(hours: float = ABANDONED_HOURS, dry_run: bool = False) -> Freed:
    """Remove partial files and unused blobs that nobody has written to for `hours`. Raises StorageError."""
    latest = time.time() - 3600 * hours
    candidates = [path for cached in contents() for path in (*cached.partial, *cached.unused)]
    return _remove([path for path in candidates if _modified(path) <= latest], dry_run)


def remove(names: Sequence[str], dry_run: bool = False) -> Freed:
    """Remove repositories with all their revisions. names: registered models, or hf://org/name.

    Raises RequestError if one of them is not in the cache; then nothing is removed. Raises StorageError.
    """
    return _remove(list(dict.fromkeys(path for name in names for path in _folders(name))), dry_run)


def _folders(name: str) -> list[Path]:
    """The folders of a repository in the cache: its files, and the client's locks if there are any."""
    reference = Reference.parse(name)
    if reference.revision is not None:
        raise RequestError(f"{name}: repositories are removed whole; leave out the revision.")
    pin = None if reference.model is None else registry.find(reference.model).weights
    repo = pin.repo if pin else reference.repo
    if repo is None or repo not in {cached.repo for cached in contents()}:
        raise RequestError(f"{name} is not in the cache; `rnnzoo cache list` shows what is.")
    locks = cache_root() / ".locks" / folder(repo).name
    return [folder(repo), *([locks] if locks.is_dir() else [])]


def _remove(paths: list[Path], dry_run: bool) -> Freed:
    total = sum(_size(file) for path in paths for file in _files(path))
    try:
        for path in () if dry_run else paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error) from error
    return Freed(tuple(paths), total)


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or the files in a folder, links left out."""
    if path.is_dir():
        yield from (file for file in path.rglob("*") if not file.is_symlink() and file.is_file())
    else:
        yield path


def _size(path: Path) -> int:
    """Bytes of a file; 0 if it has just been removed."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _modified(path: Path) -> float:
    """Time of the last write, in seconds since the epoch; now if the file has just been removed."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
