"""Creates a new zoo: a folder with a small, working registry to start from."""

from pathlib import Path

from ..errors import RequestError
from ..utils import files

TEMPLATE = Path(__file__).parent / "template"
FILES = ("registry.yaml", "waves.py")
MODEL = "gru-1x32-waves"
"""A model in the template's registry."""


def create(folder: Path) -> list[Path]:
    """Write the template's files and an empty folder cards/ to `folder`, and return the paths of the files.

    Raises RequestError, before anything is written, if one of the files exists already or `folder` is a file, and OSError if
    writing fails.
    """
    if place := files.obstacle(folder):
        raise RequestError(f"{place} is a file, not a folder. Choose another name.")
    if there := [name for name in FILES if (folder / name).exists()]:
        raise RequestError(f"{folder} has {' and '.join(there)} already; nothing was written. Choose another folder.")
    (folder / "cards").mkdir(parents=True, exist_ok=True)
    files.write_together(folder, {name: (TEMPLATE / name).read_bytes() for name in FILES})
    return [folder / name for name in FILES]
