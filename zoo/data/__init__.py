"""The data of tasks: one file a family, and the examples of a model or a task."""

from typing import TYPE_CHECKING

from .. import registry
from ..errors import DataError, first_line
from ..registry.tasks import TASKS
from ..utils.imports import imported

if TYPE_CHECKING:
    from ..registry.schema import Dataset, Task
    from .base import Split, SplitName, TaskData


def task_data(task: "Task", dataset: "Dataset") -> "TaskData":
    """The data of a task; nothing is read until a split is asked for. Raises DataError for a family that is no class of
    an installed package."""
    try:
        family: type[TaskData] = imported(TASKS.get(task.family, task.family), __name__)
    except (ImportError, AttributeError) as error:
        if task.family in TASKS:
            raise
        raise DataError(f"The task family {task.family} cannot be imported ({first_line(error)}).") from error
    return family(task, dataset)


def examples(name: str, split: "SplitName" = "test") -> "Split":
    """The examples that a model, or a task, is trained ("train", "validation") or measured on ("test").

    `x, y, lengths = found.batch(indices, device)` gives some of them as the network takes them; `found.prepare(raw)` makes
    x of examples of your own, a tensor such as `found.raw`; of text, the network's `tokenizer` does. Raises
    UnknownNameError for neither a model nor a task, and DataError where the data are missing or are not the pinned ones.
    """
    known = registry.registry()
    task = known.tasks[name] if name in known.tasks else registry.find(name).task
    return task_data(task, known.datasets[task.dataset]).split(split)
