"""Checkpoint files that are already on this machine: in the Hub client's cache and in the package."""

from collections.abc import Mapping
from pathlib import Path

from ...errors import RequestError
from ...registry.schema import Weights
from ...utils import files, paths
from .errors import storage_error
from .settings import COMMIT

PREFIX = "models--"
"""Start of the name of a repository's folder in the client's cache."""


def cache_root() -> Path:
    """Return the client's cache, which HF_HOME or HF_HUB_CACHE moves."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def folder(repo: str) -> Path:
    """Return the folder of a repository in the client's cache, whether it exists or not."""
    return cache_root() / f"{PREFIX}{repo.replace('/', '--')}"


def cached(repo: str, name: str, commit: str | None) -> Path | None:
    """Return the path of a file of a commit in the client's cache, unverified; None if it is not there."""
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(repo, name, revision=commit)
    return Path(path) if isinstance(path, str) else None


def packaged(model: str, name: str) -> Path | None:
    """Return the path of a checkpoint's file in cards/MODEL of this installation, unverified; None if it is not there."""
    path = paths.path("cards", model, name)
    return path if path.is_file() else None


def copies(model: str, pin: Weights, name: str) -> list[Path]:
    """Return every copy of a pinned file on this machine, unverified, the cache's first."""
    candidates = (cached(pin.repo, name, pin.revision), packaged(model, name))
    return [path for path in candidates if path is not None]


def known_commit(repo: str, revision: str) -> str | None:
    """Return the commit that a revision was at when the client last asked; None if it never did."""
    if COMMIT.fullmatch(revision):
        return revision
    try:
        commit = (folder(repo) / "refs" / revision).read_text().strip()
    except OSError:
        return None
    return commit if COMMIT.fullmatch(commit) else None


def remove(path: Path) -> None:
    """Remove a file from the client's cache, with its blob; a link to anywhere else loses only the link."""
    blob = path.resolve()
    path.unlink(missing_ok=True)
    if blob.parent.name == "blobs" and blob.is_relative_to(cache_root().resolve()):
        blob.unlink(missing_ok=True)


def copy(sources: Mapping[str, Path], target: Path, force: bool) -> dict[str, Path]:
    """Copy files into the folder `target` atomically, and return their new paths by name.

    Raises RequestError if another file of that name is there and not `force`; then nothing is copied. Raises StorageError.
    """
    contents = {name: path.read_bytes() for name, path in sources.items()}
    try:
        for name, content in contents.items():
            path = target / name
            if not force and path.exists() and path.read_bytes() != content:
                raise RequestError(f"{path} is another file. Choose another folder, or --force to replace it.")
        for name, content in contents.items():
            files.atomic_write(target / name, content)
    except OSError as error:
        raise storage_error(error, "Choose another folder.") from error
    return {name: target / name for name in contents}
