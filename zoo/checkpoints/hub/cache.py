"""What the client's cache holds of ours, and how to be rid of it. Other libraries' models there are left alone."""

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
from .errors import storage
from .local import PREFIX, folder

OLD_HOURS = 1.0
"""A partial file that nobody wrote to for so long belongs to a download that died."""


@dataclass(frozen=True)
class Cached:
    """One repository in the cache."""

    repo: str
    revisions: tuple[str, ...]
    pinned: bool
    """Whether the registry's commit of it is there."""
    bytes: int
    partial: tuple[Path, ...]
    """What downloads that are under way, or died, have so far."""
    unused: tuple[Path, ...]
    """Blobs that no revision refers to."""

    @property
    def partial_bytes(self) -> int:
        return sum(map(_size, self.partial))


@dataclass(frozen=True)
class Freed:
    """What was removed, or would be."""

    paths: tuple[Path, ...]
    bytes: int


def contents() -> list[Cached]:
    """Every repository of ours in the cache: those that the registry pins, and those with a config.json of this library."""
    from huggingface_hub import constants

    root = Path(constants.HF_HUB_CACHE).resolve()  # as `used` is, of which its blobs are part
    pins = {pin.repo: pin.revision for pin in registry.load_lock().weights.values()}
    found = []
    for place in sorted(root.glob(f"{PREFIX}*--*")) if root.is_dir() else ():
        repo = place.name.removeprefix(PREFIX).replace("--", "/", 1)
        if place.is_symlink() or not place.is_dir() or not (repo in pins or _ours(place)):
            continue
        revisions = tuple(sorted(path.name for path in (place / "snapshots").glob("*") if path.is_dir()))
        used = {path.resolve() for path in (place / "snapshots").rglob("*") if not path.is_dir()}
        blobs = [path for path in (place / "blobs").glob("*") if path.is_file()]
        partial = tuple(path for path in blobs if path.name.endswith(".incomplete"))
        unused = tuple(path for path in blobs if path not in partial and path not in used)
        total = sum(map(_size, {*blobs, *used}))
        found.append(Cached(repo, revisions, pins.get(repo) in revisions, total, partial, unused))
    return found


def _ours(place: Path) -> bool:
    """Whether a config.json in a repository's folder names this library."""
    for path in (place / "snapshots").glob(f"*/{configs.FILE}"):
        try:
            if path.stat().st_size <= configs.MAX_BYTES:
                data = json.loads(path.read_bytes())
                return isinstance(data, dict) and data.get("library") == "rnnzoo"
        except (OSError, ValueError, RecursionError):
            continue
    return False


def collect(hours: float = OLD_HOURS, dry_run: bool = False) -> Freed:
    """Remove partial files and unused blobs that are at least so many hours old."""
    before = time.time() - 3600 * hours
    old = [path for c in contents() for path in (*c.partial, *c.unused) if _changed(path) <= before]
    return _remove(old, dry_run)


def remove(names: Sequence[str], dry_run: bool = False) -> Freed:
    """Remove repositories, all revisions: of registered models, or hf://org/name. RequestError, and nothing is removed, if
    one is not there."""
    return _remove(list(dict.fromkeys(path for name in names for path in _places(name))), dry_run)


def _places(name: str) -> list[Path]:
    """Where the cache has a repository."""
    reference = Reference.parse(name)
    if reference.revision is not None:
        raise RequestError(f"{name}: repositories are removed whole; leave out the revision.")
    pin = None if reference.model is None else registry.find(reference.model).weights
    repo = pin.repo if pin else reference.repo
    if repo is None or repo not in {c.repo for c in contents()}:
        raise RequestError(f"{name} is not in the cache; `rnnzoo cache list` shows what is.")
    locks = folder(repo).parent / ".locks" / folder(repo).name
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
        raise storage(error) from error
    return Freed(tuple(paths), total)


def _files(path: Path) -> Iterator[Path]:
    yield from (
        (file for file in path.rglob("*") if not file.is_symlink() and file.is_file()) if path.is_dir() else (path,)
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone meanwhile
        return 0


def _changed(path: Path) -> float:
    """When, in seconds since the epoch."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
