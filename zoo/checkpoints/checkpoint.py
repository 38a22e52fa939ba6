"""A checkpoint whose files are on this machine. `sources.resolve` makes one from a reference."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..registry import Entry
from ..registry.schema import Config
from ..utils import files
from . import configs, tensors
from .references import Reference

FILES = (tensors.FILE, configs.FILE, configs.VOCABULARY)
"""The files in a checkpoint's folder. Only a network that reads text has a vocabulary."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are on this machine."""

    reference: Reference
    config: Config
    """The content of config.json, which agrees with the registry if `entry` is set."""
    files: Mapping[str, Path]
    """Path of each file by its name. `model.safetensors` is listed even if a folder lacks it."""
    entry: Entry | None = None
    """The registry's entry of a registered model; None for other checkpoints."""
    repo: str | None = None
    """Repository on the Hub, as org/name; None for a folder."""
    revision: str | None = None
    """Commit on the Hub; None for a folder, or for a model that is only in the package."""
    verified: bool = False
    """True if all files have exactly the bytes that the registry pins."""
    downloaded: tuple[str, ...] = ()
    """Names of the files that were downloaded for this object."""

    @property
    def weights(self) -> Path:
        """Path of model.safetensors."""
        return self.files[tensors.FILE]

    @cached_property
    def weights_sha256(self) -> str:
        """The sha256 of model.safetensors: the pinned one if the files were verified, else computed once. Raises OSError."""
        if self.verified and self.entry is not None and self.entry.weights is not None:
            return self.entry.weights.files[tensors.FILE].sha256
        return files.sha256(self.weights)


def files_in(folder: Path) -> dict[str, Path]:
    """Return the paths of a checkpoint's files in `folder`, by name. model.safetensors is listed even if it is missing."""
    return {name: folder / name for name in FILES if name == tensors.FILE or (folder / name).exists()}
