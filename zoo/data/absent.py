"""Data that papers report figures on but that nobody may redistribute: their tasks exist to hold those figures."""

from typing import NoReturn

from ..errors import DataError
from .base import SplitName, TaskData


class Absent(TaskData):
    """A task whose data rnnzoo cannot read, with any layout."""

    def read(self, name: SplitName) -> NoReturn:
        """Raise DataError."""
        where = f" See {self.dataset.url}." if self.dataset.url else ""
        raise DataError(
            f"{self.dataset.title}: not freely available, and rnnzoo has no reader for it. {self.task.title} is here only for "
            f"the figures that papers report.{where}"
        )
