"""Where the bytes of a checkpoint or dataset come from: the cache, the package, the Hub, in that order.

The registry pins every published file by sha256 and size, so the source does not matter: the hash decides.
"""

import hashlib
from pathlib import Path

from . import assets
from .errors import CheckpointError, DataError
from .registry import Entry
from .specs import PinnedFile, Weights


def resolve(entry: Entry, revision: str | None = None) -> dict[str, Path]:
    """The files of an entry's checkpoint, each verified against its pin: file name to path.

    revision: a Hub revision to use instead of the pinned one; its bytes have no pin to be checked against. Raises
    CheckpointError if there are no weights, or if no source has the pinned bytes.
    """
    pin = entry.weights
    if pin is None:
        raise CheckpointError(f"{entry.name} has no published weights yet. To train it: rnnzoo train {entry.name}")
    if revision is not None:
        return {name: _download(pin.repo, name, revision) for name in pin.files}
    return {name: _find(entry.name, pin, name, file) for name, file in pin.files.items()}


def _find(model: str, pin: Weights, name: str, file: PinnedFile) -> Path:
    problems = []
    for source in (_cached, _packaged, _published):
        try:
            path = source(model, pin, name)
        except CheckpointError as error:
            problems.append(str(error).rstrip("."))
            continue
        if path is None:
            continue
        problem = differs(path, file)
        if problem is None:
            return path
        problems.append(f"{path} {problem}")
    raise CheckpointError(f"{model}: no source has the pinned {name}: {'; '.join(problems) or 'not found'}.")


def _cached(model: str, pin: Weights, name: str) -> Path | None:
    if pin.revision is None:
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(pin.repo, name, revision=pin.revision)
    return Path(found) if isinstance(found, str) else None


def _packaged(model: str, pin: Weights, name: str) -> Path | None:
    path = assets.path("cards", model, name)
    return path if path.is_file() else None


def _published(model: str, pin: Weights, name: str) -> Path | None:
    if pin.revision is None:
        return None
    damaged = _cached(model, pin, name) is not None  # else it would not be asked; the client would return it again
    return _download(pin.repo, name, pin.revision, force=damaged)


def _download(repo: str, name: str, revision: str, force: bool = False) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, name, revision=revision, library_name="rnnzoo", force_download=force))
    except Exception as error:  # the client lets errors of several HTTP libraries through
        raise CheckpointError(f"{repo}@{revision}: {name} could not be fetched: {_first_line(error)}") from error


def dataset_file(repo: str, name: str) -> Path:
    """A file of a dataset repository, downloaded to the Hub's cache if need be; the caller verifies what it decodes to."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, name, repo_type="dataset", library_name="rnnzoo"))
    except Exception as error:  # the client lets errors of several HTTP libraries through
        raise DataError(
            f"{repo}: {name} could not be fetched: {_first_line(error)} "
            "Set RNNZOO_DATA to a folder that has the data, or connect to the Hub."
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def differs(path: Path, file: PinnedFile) -> str | None:
    """What is wrong with the file at `path`, None if it is the pinned one."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        return None if sha256(path) == file.sha256 else "has another sha256"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
