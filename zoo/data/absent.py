"""Data that a document has figures of and that nobody may pass on: their tasks give the figures a place."""

from typing import NoReturn

from ..errors import DataError
from .base import SplitName, TaskData


class Absent(TaskData):
    """A task without a reader, any layout."""

    def read(self, name: SplitName) -> NoReturn:
        """Refused: raises DataError."""
        where = f" See {self.dataset.url}." if self.dataset.url else ""
        raise DataError(
            f"{self.dataset.title}: cannot be had freely, and rnnzoo has no reader for it; {self.task.title} is here for the "
            f"figures that are reported of it.{where}"
        )
