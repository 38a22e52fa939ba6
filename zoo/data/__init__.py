"""The data of tasks: one module per dataset family, and the examples of a model or a task."""

from typing import get_args

from .. import registry
from ..errors import DataError
from ..registry.schema import TASKS, Config, Dataset, Task
from ..utils import import_object
from ..utils.arguments import check_name, text_of
from ..utils.own import import_own
from .base import Split, SplitName, TaskData
from .originals import Recording, read_verified


def task_data(task: Task, dataset: Dataset | None = None) -> TaskData:
    """Return the data of a task. Its files are read when `split` is called. dataset: None for the registry's.

    `task.family` is a key of TASKS or "module:Class", whose module may be in the zoo's folder: that folder is appended to
    sys.path. Raises DataError if the class cannot be imported, and RequestError if it does not have the task's layout.
    """
    if task.family in TASKS:
        family: type[TaskData] = import_object(TASKS[task.family], __name__)
    else:
        family = import_own(task.family, "task family", "family", TaskData, DataError)
    return family(task, dataset or registry.load_registry().datasets[task.dataset])


def data_of(config: Config) -> TaskData | None:
    """Return the data of the task that a config names; None if the registry has no such task. Raises as `task_data` does."""
    task = registry.load_registry().all_tasks.get(config.task)
    return None if task is None else task_data(task)


def examples(name: str, split: SplitName = "test") -> Split:
    """Return the training, validation or test split of a task, or of the task of a model. name: of the task or the model.

    `x, y, lengths = split.batch(indices, device)` returns a batch that the network can read. `split.prepare(raw)` turns
    your own examples into x; `raw` has the shape (any n) and the dtype of `split.raw`. For text, use the network's
    `tokenizer` instead.

    Raises UnknownNameError if `name` is neither a model nor a task, and DataError if a file is missing or differs from the
    locked one.
    """
    tasks = registry.load_registry().all_tasks
    is_task = text_of("The name of a model or task", name) in tasks
    return task_data(tasks[name] if is_task else registry.find(name).task).split(split)


def facts_of(name: str) -> tuple[dict[str, str], dict[str, dict[SplitName, int]]]:
    """Return what cards/lock.json says of a dataset, after reading every split of all its tasks on this machine.

    The first is {file name: sha256}; the second is {task: {split: number of examples}}. Raises UnknownNameError if there is
    no such dataset, and DataError if a file is missing.
    """
    known = registry.load_registry()
    check_name("dataset", name, known.datasets)
    recording, sizes = Recording(), dict[str, dict[SplitName, int]]()
    dataset = known.datasets[name].model_copy(update={"sha256": recording})
    for key, task in known.all_tasks.items():
        if task.dataset == name:
            reader = task_data(task, dataset)
            sizes[key] = {split: len(reader.split(split)) for split in get_args(SplitName)}
    for file in dataset.files:
        if file not in recording:  # such as word vectors, which no task reads
            read_verified(dataset, file)
    return dict(recording), sizes
