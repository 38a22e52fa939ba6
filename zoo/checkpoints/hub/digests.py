"""Whether a file is, byte for byte, the one that was meant."""

import hashlib
from pathlib import Path

from ...registry.schema import PinnedFile
from ...utils.files import sha256


def differs(path: Path, file: PinnedFile) -> str | None:
    """What is wrong with the file at `path`, None if it is the pinned one."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes instead of {file.size:,}"
        return None if sha256(path) == file.sha256 else "has another sha256"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def pin(path: Path) -> PinnedFile:
    """What pins the file at `path`."""
    return PinnedFile(sha256=sha256(path), size=path.stat().st_size)


def git_sha1(content: bytes) -> str:
    """What git, and so the Hub, calls a file that is not in its large file storage."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def damage(path: Path) -> str | None:
    """What is wrong with an unpinned file of the client's cache, as far as its blob's name, the Hub's digest, tells."""
    name = path.resolve().name  # sha256 of a large file, git's sha1 of another; else the cache is without links
    try:
        if len(name) == 64 and name != path.name:
            return None if sha256(path) == name else "is not what the Hub says it is (another sha256)"
        if len(name) == 40 and name != path.name:
            return None if git_sha1(path.read_bytes()) == name else "is not what the Hub says it is (another sha1)"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def sha256_of(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()
