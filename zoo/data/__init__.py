"""The data of tasks: one file a family, and the examples of a model or a task."""

from typing import get_args

from .. import registry
from ..errors import DataError, UnknownNameError, first_line
from ..registry.schema import Dataset, Task
from ..registry.tasks import TASKS
from ..utils.imports import import_object
from .base import Recording, Split, SplitName, TaskData, read_verified


def task_data(task: Task, dataset: Dataset) -> TaskData:
    """The data of a task; nothing is read until a split is asked for. Raises DataError for a family that is no class of
    an installed package."""
    try:
        family: type[TaskData] = import_object(TASKS.get(task.family, task.family), __name__)
    except (ImportError, AttributeError) as error:
        if task.family in TASKS:
            raise
        raise DataError(f"The task family {task.family} cannot be imported ({first_line(error)}).") from error
    return family(task, dataset)


def examples(name: str, split: SplitName = "test") -> Split:
    """The examples that a model, or a task, is trained ("train", "validation") or measured on ("test").

    `x, y, lengths = found.batch(indices, device)` gives some of them as the network takes them; `found.prepare(raw)` makes
    x of examples of your own, a tensor such as `found.raw`; of text, the network's `tokenizer` does. Raises
    UnknownNameError for neither a model nor a task, and DataError where the data are missing or are not the pinned ones.
    """
    known = registry.load_registry()
    task = known.all_tasks[name] if name in known.all_tasks else registry.find(name).task
    return task_data(task, known.datasets[task.dataset]).split(split)


def digests_of(name: str) -> dict[str, str]:
    """The digests of a dataset's files as they are on this machine, by reading every split of every task of it.

    Raises UnknownNameError, and DataError where files are missing.
    """
    known = registry.load_registry()
    if name not in known.datasets:
        raise UnknownNameError("dataset", name, known.datasets)
    recording = Recording()
    dataset = known.datasets[name].model_copy(update={"sha256": recording})
    for task in known.all_tasks.values():
        for split in get_args(SplitName) if task.dataset == name else ():
            task_data(task, dataset).split(split)
    for file in dataset.files if not recording else ():  # such as word vectors, which no task reads
        read_verified(dataset, file)
    return dict(recording)
