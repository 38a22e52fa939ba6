"""What may be said in registry.yaml and config.json: frozen models that accept no unknown key and no odd value.

Nothing here imports torch, so that listing and showing models stays instant.
"""

from .base import Commit, Key, Seq, Sha256, Spec, Text
from .data import Dataset, Paper, Task
from .models import Grid, Model, PinnedFile, Registry, Reported, ReportedTable, Study, TaskGrid, Weights
from .networks import WEIGHTS, Architecture, Config, Embedding, Head, Init, Interface
from .recipes import Affine, Augmentation, Optimizer, Recipe, Schedule, Stage

__all__ = [
    "WEIGHTS", "Affine", "Architecture", "Augmentation", "Commit", "Config", "Dataset", "Embedding", "Grid", "Head", "Init", "Interface", "Key", "Model",
    "Optimizer", "Paper", "PinnedFile", "Recipe", "Registry", "Reported", "ReportedTable", "Schedule", "Seq", "Sha256",
    "Spec", "Stage", "Study", "Task", "TaskGrid", "Text", "Weights",
]  # fmt: skip
