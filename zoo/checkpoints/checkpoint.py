"""A checkpoint on this machine: resolved once from a reference, then passed on.

`resolve` finds the files, reads config.json, compares it with the registry and verifies pinned bytes, each of them once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .. import registry
from ..registry import Entry
from ..registry.schema import Config
from ..utils import files
from . import configs, hub, tensors
from .reference import Reference

FILES = (tensors.FILE, configs.FILE, configs.VOCABULARY)
"""The files of a checkpoint's folder. Only a network that reads text has the last."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are on this machine."""

    reference: Reference
    config: Config
    """Its config.json, which agrees with the registry if `entry` is set."""
    files: Mapping[str, Path]
    """Path of each file by its name. `model.safetensors` is listed even if a folder lacks it."""
    entry: Entry | None = None
    """The registry's entry of a registered model."""
    revision: str | None = None
    """Commit on the Hub; None for a folder, or for a model that is only in the package."""
    verified: bool = False
    """True if every byte is that of a pin in the registry."""

    @property
    def weights(self) -> Path:
        """Path of model.safetensors."""
        return self.files[tensors.FILE]

    @cached_property
    def weights_sha256(self) -> str:
        """Digest of model.safetensors: the pin's if the bytes were verified against it, else computed once.

        Raises OSError if the file cannot be read.
        """
        if self.verified and self.entry is not None and self.entry.weights is not None:
            return self.entry.weights.files[tensors.FILE].sha256
        return files.sha256(self.weights)


def resolve(reference: Reference, options: hub.PullOptions | None = None) -> Checkpoint:
    """Find a checkpoint's files, downloading them if they are not on this machine.

    Raises CheckpointError for a config.json that is missing, invalid or disagrees with the registry, and for a model
    without published weights; HubError and StorageError as `hub.pull` does. A folder's weights are not opened.
    """
    if reference.folder is not None:
        config = configs.read(reference.folder / configs.FILE)
        return Checkpoint(reference, config, files_in(reference.folder))
    pulled = hub.pull(reference, options)
    entry = None if reference.model is None else registry.find(reference.model)
    return Checkpoint(reference, pulled.config, pulled.files, entry, pulled.revision, pulled.verified)


def read_config(reference: Reference) -> Config:
    """Return a checkpoint's config: the registry's for a model, else that of its config.json. Needs no weights."""
    if reference.model is not None:
        return registry.find(reference.model).config
    if reference.folder is not None:
        return configs.read(reference.folder / configs.FILE)
    return hub.read_config(reference)


def files_in(folder: Path) -> dict[str, Path]:
    """Paths of a checkpoint's files in `folder` by name; model.safetensors is listed even if it is missing."""
    return {name: folder / name for name in FILES if name == tensors.FILE or (folder / name).exists()}
