"""Whether a file is, byte for byte, the one that a pin or the Hub means."""

import hashlib
from pathlib import Path

from ...registry.schema import PinnedFile
from ...utils.files import sha256


def mismatch(path: Path, file: PinnedFile) -> str | None:
    """Describe how the file at `path` differs from a pinned one; None if it is the pinned file."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        return None if sha256(path) == file.sha256 else "has another sha256"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def pin(path: Path) -> PinnedFile:
    """Return the pin of the file at `path`: its sha256 and size."""
    return PinnedFile(sha256=sha256(path), size=path.stat().st_size)


def git_sha1(content: bytes) -> str:
    """Return git's name for a file with that content, which the Hub uses for files outside its large file storage."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def damage(path: Path) -> str | None:
    """Describe the damage of an unpinned file in the client's cache; None if it is whole, as far as is known.

    A cached file is a link to a blob that is named by the Hub's digest: the sha256 of a large file, git's sha1 of a small
    one. A cache without links, as on some Windows systems, has no digests to check.
    """
    digest = path.resolve().name
    if digest == path.name:
        return None
    try:
        if len(digest) == 64:
            return None if sha256(path) == digest else "is not what the Hub says it is (another sha256)"
        if len(digest) == 40:
            return None if git_sha1(path.read_bytes()) == digest else "is not what the Hub says it is (another sha1)"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None
