"""Files that are never half written."""

import os
from pathlib import Path


def replace(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder; at every moment the old or the new file is there, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
