"""Finds, lists and removes rnnzoo's models in the cache of the Hub's client. Models of other libraries are left alone.

huggingface_hub documents the layout of the cache: models--ORG--NAME/ has refs/REVISION, blobs/DIGEST, and
snapshots/COMMIT/ with links to blobs.
"""

import errno
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ... import registry
from ...errors import RequestError
from ...utils import files
from ...utils.arguments import is_pattern, matching
from .. import configs
from ..references import SCHEME, Reference
from . import client_internals, settings
from .errors import storage_error
from .settings import COMMIT

PREFIX = "models--"
MAX_REF_BYTES = 1000
"""Maximum size of a file refs/REVISION, which contains a commit."""


def cache_root() -> Path:
    """Return the folder of the client's cache. The environment variables HF_HOME and HF_HUB_CACHE change it.

    Raises StorageError if it is a link that leads back to itself.
    """
    root = Path(settings.constants().HF_HUB_CACHE)
    try:
        root.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise storage_error(error) from error
    return root


def folder(repo: str, repo_type: str = "model") -> Path:
    """Return the folder of a repository in the cache, whether it exists or not."""
    return cache_root() / f"{repo_type}s--{repo.replace('/', '--')}"


def find(repo: str, name: str, commit: str | None) -> Path | None:
    """Return the path in the cache of the file `name` of a repository at a commit, unverified; None if it is not cached.

    commit: None if the commit is unknown, for which the result is None, too.
    """
    settings.constants()
    from huggingface_hub import try_to_load_from_cache

    path = None if commit is None else try_to_load_from_cache(repo, name, revision=commit)
    return Path(path) if isinstance(path, str) else None


def lacks(repo: str, name: str, commit: str) -> bool:
    """Return whether the client knows, from an earlier answer of the Hub, that a repository has no file `name` at a commit."""
    settings.constants()
    from huggingface_hub import try_to_load_from_cache

    return client_internals.means_absent(try_to_load_from_cache(repo, name, revision=commit))


def known_commit(repo: str, revision: str) -> str | None:
    """Return the commit that a revision had when the client last asked the Hub; None if the client never asked."""
    if COMMIT.fullmatch(revision):
        return revision
    return _commit_in(folder(repo) / "refs" / revision)


def _commit_in(ref: Path) -> str | None:
    """Return the commit that a file of refs/ contains; None if it contains none or cannot be read."""
    try:
        commit = files.read_regular(ref, MAX_REF_BYTES).decode().strip()
    except (OSError, ValueError):
        return None
    return commit if COMMIT.fullmatch(commit) else None


def repair(repo: str, repo_type: str = "model") -> None:
    """Remove pipes, devices and sockets, and links to them or out of the cache, from a repository's folder in the cache.

    The client would wait for a pipe for ever, and write through a link. Files of refs/ without a commit go too. Only the
    link is removed, never its target. Raises StorageError.
    """
    root, home = cache_root(), folder(repo, repo_type)
    inside = (root.resolve(), home.resolve())
    try:
        for place in (home / "refs", home / "blobs", home / "snapshots", root / ".locks" / home.name):
            if _leads_astray(place, inside):
                place.unlink()
            for parent, folders, names in os.walk(place):
                for path in (Path(parent, each) for each in (*folders, *names)):
                    is_ref = place.name == "refs" and path.is_file()
                    if _leads_astray(path, inside) or (is_ref and _commit_in(path) is None):
                        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error) from error


def _leads_astray(path: Path, inside: tuple[Path, ...]) -> bool:
    """Return whether a path is neither a file nor a folder, or is a link that leads out of the folders `inside`."""
    try:
        mode = path.stat().st_mode
        leaves = path.is_symlink() and not any(map(path.resolve().is_relative_to, inside))
    except FileNotFoundError:
        return False  # the client replaces a link to nothing
    except (OSError, RuntimeError):  # a link to itself
        return path.is_symlink()
    return leaves or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def discard(path: Path) -> None:
    """Remove a file and its blob from the cache. If the file is a link to a place outside the cache, remove only the link."""
    blob = path.resolve()
    path.unlink(missing_ok=True)
    if blob.parent.name == "blobs" and blob.is_relative_to(cache_root().resolve()):
        blob.unlink(missing_ok=True)


def copy(sources: Mapping[str, Path], target: Path, force: bool) -> dict[str, Path]:
    """Copy files into the folder `target`, all or none, and return their new paths by name.

    sources: the path of each file by the name that its copy gets. force: overwrite files that differ from their source, and
    remove a vocabulary of another model.

    Raises RequestError, before anything is copied, if `target` has such a file and `force` is False;
    and StorageError.
    """
    try:
        contents = {name: path.read_bytes() for name, path in sources.items()}
    except OSError as error:  # another program has just removed it
        raise storage_error(error, "Pull the model again.") from error
    try:
        for name, content in contents.items():
            path = target / name
            if not force and path.exists() and not files.has_content(path, content):
                raise RequestError(
                    f"{path} exists with other content; nothing was copied. Choose another folder, or replace it with --force."
                )
        stray = target / configs.VOCABULARY
        has_stray = stray.name not in contents and stray.exists()  # it would be read with these files
        if has_stray and not force:
            raise RequestError(
                f"{stray} belongs to another model; nothing was copied. Choose another folder, or remove it with --force."
            )
        files.write_together(target, contents)
        if has_stray:
            stray.unlink()
    except OSError as error:
        raise storage_error(error, "Choose another folder.") from error
    return {name: target / name for name in contents}


@dataclass(frozen=True)
class Cached:
    """A repository in the cache."""

    repo: str
    revisions: tuple[str, ...]
    """The commits of the repository that are in the cache."""
    pinned: bool
    """True if `revisions` has the commit that the registry pins."""
    bytes: int
    partial: tuple[Path, ...]
    """Partial files of downloads that are running or were killed."""
    unused: tuple[Path, ...]
    """Blobs that no cached commit refers to."""
    damaged: bool = False
    """True if a config.json of the repository cannot be read, so that the repository may be another library's."""

    @property
    def partial_bytes(self) -> int:
        return sum(map(_size, self.partial))


@dataclass(frozen=True)
class Freed:
    """The files and folders that were removed, or that a dry run would remove, and their total size."""

    paths: tuple[Path, ...]
    bytes: int


def contents() -> list[Cached]:
    """Return rnnzoo's repositories in the cache: those that the registry pins, and those whose config.json names rnnzoo.

    Repositories whose config.json cannot be read are returned too, as damaged, because they could be rnnzoo's.
    """
    root = cache_root().resolve()
    pins = registry.load_lock().commits
    repositories = []
    for place in sorted(root.glob(f"{PREFIX}*--*")) if root.is_dir() else ():
        repo = place.name.removeprefix(PREFIX).replace("--", "/", 1)
        if place.is_symlink() or not place.is_dir():
            continue
        libraries = {_library(path) for path in (place / "snapshots").glob(f"*/{configs.FILE}")}
        damaged = None in libraries
        if repo in pins or "rnnzoo" in libraries or damaged:
            repositories.append(replace(_read(repo, place, pins.get(repo)), damaged=damaged))
    return repositories


def _read(repo: str, place: Path, pinned_commit: str | None) -> Cached:
    snapshots = place / "snapshots"
    revisions = tuple(sorted(path.name for path in snapshots.glob("*") if path.is_dir()))
    used = {path.resolve() for path in snapshots.rglob("*") if not path.is_dir()}
    blobs = [path for path in (place / "blobs").glob("*") if path.is_file()]
    partial = tuple(path for path in blobs if path.name.endswith(".incomplete"))
    unused = tuple(path for path in blobs if path not in partial and path not in used)
    return Cached(repo, revisions, pinned_commit in revisions, sum(map(_size, {*blobs, *used})), partial, unused)


def _library(path: Path) -> str | None:
    """Return the library that a config.json names, "" if it names none; None if the file cannot be read."""
    try:
        data = json.loads(files.read_regular(path, configs.MAX_BYTES))
    except OSError as error:
        return "" if error.errno == errno.EFBIG else None  # other libraries have longer ones
    except (ValueError, RecursionError):
        return None
    return str(data.get("library", "")) if isinstance(data, dict) else ""


def prune(hours: float, dry_run: bool) -> Freed:
    """Remove partial files and unused blobs that are older than `hours` and are not being downloaded; return what was removed.

    dry_run: only return what would be removed. Damaged repositories that the registry does not pin are left alone, because
    they may be another library's. Raises StorageError.
    """
    latest = time.time() - 3600 * hours
    candidates = [path for cached in _ours() for path in (*cached.partial, *cached.unused)]
    freed = []
    for path in candidates:
        with _claimed(path) as idle:
            if idle and _modified(path) <= latest:
                freed.append(_remove([path], dry_run))
    return Freed(tuple(path for each in freed for path in each.paths), sum(each.bytes for each in freed))


def _ours() -> list[Cached]:
    """Return `contents` without the damaged repositories that the registry does not pin."""
    pinned = registry.load_lock().commits
    return [cached for cached in contents() if cached.repo in pinned or not cached.damaged]


@contextmanager
def _claimed(blob: Path) -> Iterator[bool]:
    """Hold the client's lock on a blob or partial file, and yield True; yield False if a running download holds the lock."""
    from filelock import FileLock, Timeout  # as the client does

    lock = cache_root() / ".locks" / blob.parent.parent.name / f"{blob.name.partition('.')[0]}.lock"
    with ExitStack() as held:
        try:
            if lock.is_file():
                held.enter_context(FileLock(lock, timeout=0))
            idle = True
        except Timeout:
            idle = False
        yield idle


def remove(names: Sequence[str], dry_run: bool = False) -> Freed:
    """Remove repositories with all their revisions from the cache, and return what was removed.

    names: registered models, hf://org/name, org/name, or shell-style patterns of these. dry_run: only return what would be
    removed. Raises RequestError,
    before anything is removed, if one of `names` is not in the cache; and StorageError.
    """
    return _remove(list(dict.fromkeys(path for name in names for path in _folders(name))), dry_run)


def _folders(name: str) -> list[Path]:
    """Return the folders of repositories in the cache: for each, that of its files and, if there is one, that of its locks.

    name: as for `remove`, whose RequestErrors this function raises.
    """
    cached = {each.repo for each in (_ours() if is_pattern(name) else contents())}
    if is_pattern(name):
        pinned = {model: pin.repo for model, pin in registry.load_lock().weights.items()}
        named = {**{repo: repo for repo in cached}, **{f"{SCHEME}{repo}": repo for repo in cached}, **pinned}
        repos = cached.intersection(named[each] for each in matching(named, name))
    else:
        is_bare = "/" in name and not name.startswith(SCHEME)
        reference = Reference.parse(f"{SCHEME}{name}" if is_bare else name)
        if reference.revision is not None:
            raise RequestError(f"{name}: only whole repositories can be removed. Leave out the revision.")
        pin = None if reference.model is None else registry.find(reference.model).weights
        repos = cached.intersection([pin.repo if pin else reference.repo])
    if not repos:
        raise RequestError(f"{name} is not in the cache. `rnnzoo cache list` shows the cached models.")
    folders = [(folder(repo), cache_root() / ".locks" / folder(repo).name) for repo in sorted(repos)]
    return [path for home, locks in folders for path in (home, *([locks] if locks.is_dir() else []))]


def _remove(targets: list[Path], dry_run: bool) -> Freed:
    """Remove files and folders unless `dry_run`, and return `targets` with their total size, in which links count as 0."""
    inside = [file for path in targets for file in (path.rglob("*") if path.is_dir() else [path])]
    total = sum(_size(file) for file in inside if not file.is_symlink() and not file.is_dir())
    try:
        for path in () if dry_run else targets:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error) from error
    return Freed(tuple(targets), total)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if its size cannot be read, for example because it has just been removed."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _modified(path: Path) -> float:
    """Return the time of a file's last write, in seconds since the epoch; the present time if the file has been removed."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()
