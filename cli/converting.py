"""`rnnzoo convert`: makes the data file of a dataset from the files as they are published."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from .arguments import AsJson
from .output import emit


def convert(
    file: Annotated[str, Argument(help="Name of the data file, such as fsdd_8khz_int16.npz; docs/tasks.md has all.")],
    folder: Annotated[Path, Argument(help="A copy of the repository that publishes the original files.")],
    as_json: AsJson = False,
) -> None:
    """Make a dataset's file below $RNNZOO_DATA from the files as they are published, and verify its sha256."""
    from zoo.data import conversion

    path = conversion.convert(file, folder)
    emit({"path": str(path)}, as_json, f"Wrote {path}")
