"""A new zoo: a folder with a registry that works, to begin from."""

from pathlib import Path

from ..errors import RequestError
from ..utils import files

TEMPLATE = Path(__file__).parent / "template"
FILES = ("registry.yaml", "waves.py")
MODEL = "gru-1x32-waves"
"""A model of the template's registry."""


def create(folder: Path) -> list[Path]:
    """Write the template's files and an empty cards/ to `folder`, and return the paths of the files.

    Raises RequestError if one of the files is there already; then nothing is written. Raises OSError.
    """
    if there := [str(folder / name) for name in FILES if (folder / name).exists()]:
        raise RequestError(f"{' and '.join(there)} is there already, so nothing was written. Choose another folder.")
    (folder / "cards").mkdir(parents=True, exist_ok=True)
    for name in FILES:
        files.atomic_write(folder / name, (TEMPLATE / name).read_bytes())
    return [folder / name for name in FILES]
