"""Reads and writes JSON files of measurements, a list of rows, such as cards/exports.json. Only programs write them.

Nothing here imports torch.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from ..errors import RegistryError, faults
from ..registry.schema import Spec
from ..utils import files, paths

R = TypeVar("R", bound=Spec)


@dataclass(frozen=True)
class Table(Generic[R]):
    """A JSON file of rows with unique keys."""

    file: tuple[str, ...]
    """Path of the file below the zoo's folder, as a tuple of folder names and the file name."""
    rows: TypeAdapter[list[R]]
    key: Callable[[R], Any]
    """Returns the key of a row, such as its model and format. The file is sorted by the keys."""

    def read(self) -> list[R]:
        """Return all rows; none if there is no file. Raises RegistryError for a damaged file, and OSError."""
        path = paths.path(*self.file)
        try:
            return self.rows.validate_json(path.read_bytes()) if path.exists() else []
        except ValidationError as error:
            raise RegistryError(f"{path}: {faults(error)} A program writes this file; restore it from git.") from error

    def record(self, row: R) -> None:
        """Store a row, in place of an older row with its key. Raises RequestError for an installed package, and OSError."""
        path = paths.writable(*self.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.exclusive_lock(path.parent):
            others = [other for other in self.read() if self.key(other) != self.key(row)]
            self._write(sorted([*others, row], key=self.key))

    def _write(self, rows: Sequence[R]) -> None:
        """Replace the content of the file by `rows`."""
        content = [row.model_dump(mode="json", exclude_none=True) for row in rows]
        files.atomic_write(paths.path(*self.file), (json.dumps(content, indent=1) + "\n").encode())
