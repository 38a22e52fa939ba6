"""Tasks whose data nobody may redistribute. The registry has these tasks for the figures that papers report on them."""

from typing import NoReturn

from ..errors import DataError
from .base import SplitName, TaskData


class Absent(TaskData):
    """A task whose data rnnzoo cannot read. `task.layout` may be any text."""

    def read(self, name: SplitName) -> NoReturn:
        """Raise DataError, because there are no data to read."""
        where = f" See {self.dataset.url}." if self.dataset.url else ""
        raise DataError(
            f"{self.dataset.title} is not freely available, and rnnzoo cannot read it. The task {self.task.title} is here only "
            f"for the figures that papers report.{where}"
        )
