"""TASKS: every dataset family rnnzoo can read, one row each. The table itself needs no torch."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..specs import Dataset, Task
    from .base import TaskData

TASKS: dict[str, str] = {
    "absent": "absent.Absent",
    "adding": "adding.Adding",
    "babi": "babi.Babi",
    "circles": "tables.Circles",
    "jester": "video.Jester",
    "jigsaw": "text.Jigsaw",
    "mnist": "mnist.MNIST",
    "nmnist": "video.NMNIST",
    "pima": "tables.Pima",
    "sits": "sits.Sits",
    "spooky": "text.Spooky",
}
"""Family to `module.Class` within zoo.tasks; the class is called with the registry's Task and Dataset."""


def task_data(task: "Task", dataset: "Dataset") -> "TaskData":
    """The data of a task; nothing is read until a split is asked for."""
    module, _, attribute = TASKS[task.family].rpartition(".")
    data: TaskData = getattr(import_module(f"{__name__}.{module}"), attribute)(task, dataset)
    return data
