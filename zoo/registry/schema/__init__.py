"""The schema of registry.yaml and config.json: frozen pydantic models that refuse unknown keys and invalid values.

No module here imports torch, so that programs can list and show models without waiting for torch.
"""

from .base import Key, Seq, Sha256, Spec, Text
from .data import STREAMS, TASKS, Dataset, Paper, Shapes, Task
from .models import PACKAGE_NAMESPACE, Model, Pin, PinnedFile, Registry, Reported
from .networks import Architecture, Config, ConvHead, Embedding, Init, Interface
from .recipes import Affine, Augmentation, Elastic, Optimizer, Recipe, Schedule, Stage

__all__ = [
    "PACKAGE_NAMESPACE", "STREAMS", "TASKS", "Affine", "Architecture", "Augmentation", "Config", "ConvHead",
    "Dataset", "Elastic", "Embedding", "Init", "Interface", "Key", "Model", "Optimizer", "Paper", "Pin",
    "PinnedFile", "Recipe", "Registry", "Reported", "Schedule", "Seq", "Sha256", "Shapes", "Spec", "Stage",
    "Task", "Text",
]  # fmt: skip
