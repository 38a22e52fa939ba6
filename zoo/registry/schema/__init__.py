"""The schema of registry.yaml and config.json: frozen pydantic models that refuse unknown keys and invalid values.

No module here imports torch, so that programs can list and show models without waiting for torch.
"""

from .base import Commit, Key, Seq, Sha256, Spec, Text
from .data import STREAMS, TASKS, Dataset, Paper, Shapes, Task
from .models import PACKAGE_NAMESPACE, Grid, Model, Pin, PinnedFile, Registry, Reported, ReportedTable, Study, TaskGrid
from .networks import INITIALISERS, Architecture, Config, ConvHead, Embedding, Init, Interface
from .recipes import Affine, Augmentation, Elastic, Optimizer, Recipe, Schedule, Stage

__all__ = [
    "INITIALISERS", "PACKAGE_NAMESPACE", "STREAMS", "TASKS", "Affine", "Architecture", "Augmentation", "Commit", "Config", "ConvHead",
    "Dataset", "Elastic", "Embedding", "Grid", "Init", "Interface", "Key", "Model", "Optimizer", "Paper", "Pin",
    "PinnedFile", "Recipe", "Registry", "Reported", "ReportedTable", "Schedule", "Seq", "Sha256", "Shapes", "Spec", "Stage",
    "Study", "Task", "TaskGrid", "Text",
]  # fmt: skip
