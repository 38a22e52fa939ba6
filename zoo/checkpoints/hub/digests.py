"""Checks that a file has exactly the bytes that a pin or the Hub names."""

import hashlib
from pathlib import Path

from ...registry.schema import PinnedFile
from ...utils.files import read_regular, sha256

MAX_SMALL_BYTES = 10**8
"""Maximum size of a file whose git sha1 is checked. The Hub identifies files of more than 10 MB by their sha256."""


def mismatch(path: Path, file: PinnedFile) -> str | None:
    """Return in words how the file at `path` differs from the pinned `file`, or None if it does not differ."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        return None if sha256(path) == file.sha256 else "has another sha256"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def pinned(path: Path) -> PinnedFile:
    """Return the pin of the file at `path`: its sha256 and size."""
    return PinnedFile(sha256=sha256(path), size=path.stat().st_size)


def git_sha1(content: bytes) -> str:
    """Return git's sha1 of a file with this content. The Hub identifies files outside its large file storage by it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def damage(path: Path) -> str | None:
    """Return in words what is wrong with an unpinned file in the client's cache, or None if no damage is known.

    A cached file is a link to a blob that is named by the Hub's digest: the sha256 of a large file, git's sha1 of a small
    file. A cache without links, as on some Windows systems, has no digests to check.
    """
    blob = path.resolve()
    digest = blob.name
    if path.is_symlink() and blob.parent.name != "blobs":
        return "is a link that leads out of the cache"
    checks = {64: ("sha256", sha256), 40: ("sha1", lambda path: git_sha1(read_regular(path, MAX_SMALL_BYTES)))}
    if digest == path.name or len(digest) not in checks:
        return None
    kind, compute = checks[len(digest)]
    try:
        return None if compute(path) == digest else f"differs from the file that the Hub names (another {kind})"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
