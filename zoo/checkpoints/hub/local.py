"""Files that are on this machine already: in the client's cache and in the package."""

from pathlib import Path

from ...errors import RequestError
from ...registry.schema import Weights
from ...utils import files, paths
from .errors import storage
from .settings import COMMIT

PREFIX = "models--"
"""What the folder of a repository in the client's cache begins with."""


def cached(repo: str, name: str, commit: str | None) -> Path | None:
    """A file of a commit in the client's cache, if it is there; unverified."""
    if commit is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repo, name, revision=commit)
    return Path(found) if isinstance(found, str) else None


def packaged(model: str, name: str) -> Path | None:
    """A file of a checkpoint that came with this installation, if it did; unverified."""
    path = paths.path("cards", model, name)
    return path if path.is_file() else None


def copies(model: str, pin: Weights, name: str) -> list[Path]:
    """Every copy of a pinned file that is here, unverified, the cache's first."""
    found = (cached(pin.repo, name, pin.revision), packaged(model, name))
    return [path for path in found if path is not None]


def folder(repo: str) -> Path:
    """Where the client's cache keeps a repository."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"{PREFIX}{repo.replace('/', '--')}"


def known_commit(repo: str, revision: str) -> str | None:
    """The commit a revision was at when it was last asked for."""
    if COMMIT.fullmatch(revision):
        return revision
    try:
        found = (folder(repo) / "refs" / revision).read_text().strip()
    except OSError:
        return None
    return found if COMMIT.fullmatch(found) else None


def remove(path: Path) -> None:
    """Take a file out of the client's cache, with the blob that it is a link to."""
    blob = path.resolve()
    for each in {path, blob}:
        each.unlink(missing_ok=True)


def copy(found: dict[str, Path], target: Path, force: bool) -> dict[str, Path]:
    """Copy files into a folder, each whole or not at all; RequestError if another file of that name is there."""
    content = {name: path.read_bytes() for name, path in found.items()}
    try:
        for name, data in content.items():
            there = target / name
            if not force and there.exists() and there.read_bytes() != data:
                raise RequestError(f"{there} is another file. Choose another folder, or --force to replace it.")
        for name, data in content.items():
            files.atomic_write(target / name, data)
    except OSError as error:
        raise storage(error, "Choose another folder.") from error
    return {name: target / name for name in found}
