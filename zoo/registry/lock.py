"""Reads and writes cards/lock.json: pins of weights, digests of datasets, sizes of splits, counts of parameters, an index of models.

Only programs write this file.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from ..errors import RegistryError, faults
from ..utils import files, paths
from .index import FILE as FILE
from .metrics import Target
from .schema import Key, Pin, Seq, Sha256, Spec, Text
from .schema.base import Percent


class Counts(Spec):
    """The size of a model."""

    parameters: Annotated[int, Field(ge=0)]
    multiply_adds: Annotated[int, Field(ge=0)]
    """Multiply-adds of the linear maps for one sequence of the task's length."""


class IndexedModel(Spec):
    """The facts about a model that zoo.registry.index reads."""

    cell: Key
    task: Key
    target: Target
    reported_percent: Seq[Percent] = ()
    reported_text: Text | None = None


class Index(Spec):
    """The models of one registry.yaml."""

    registry_sha256: Sha256
    models: dict[Key, IndexedModel]


class Lock(Spec):
    """The content of cards/lock.json."""

    counts: dict[Key, Counts] = {}
    """By model: its size."""
    datasets: dict[Key, dict[str, Sha256]] = {}
    """By dataset and file: the digest of the unpacked content, or of the decoded values if several file formats hold them."""
    splits: dict[Key, dict[Key, Annotated[int, Field(ge=1)]]] = {}
    """By task and split: the number of examples."""
    weights: dict[Key, Pin] = {}
    """By model: the pin of its published checkpoint, which has the digest and size of each file."""
    index: Index | None = None

    @property
    def commits(self) -> dict[str, str | None]:
        """The pinned commit of every pinned repository, by org/name; None for one that is not pushed yet."""
        return {pin.repo: pin.revision for pin in self.weights.values()}


def read(path: Path) -> Lock:
    """Return the content of the lock file at `path`, or an empty lock without a file. Raises RegistryError if it is invalid."""
    try:
        return Lock.model_validate_json(path.read_bytes()) if path.exists() else Lock()
    except OSError as error:
        raise RegistryError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise RegistryError(f"{path}: {faults(error)} A program writes this file; restore it from git.") from error


@cache
def load_lock() -> Lock:
    """Return the lock of the zoo in use. The file is read once."""
    return read(paths.path(*FILE))


def update(change: Callable[[Lock], Lock]) -> bool:
    """Replace the content of cards/lock.json by `change(content)`, and return whether the file changed.

    The file is read again under an exclusive lock, so that no program overwrites what another program has just written.
    Raises OSError if the file cannot be written.
    """
    path = paths.path(*FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.exclusive_lock(path.parent):
        before = read(path)
        after = change(before)
        content = dump(after)
        if after == before and (not path.exists() or path.read_bytes() == content):
            return False
        files.atomic_write(path, content)
    load_lock.cache_clear()
    return True


def dump(lock: Lock) -> bytes:
    """Return a lock as the bytes of cards/lock.json, with sorted keys."""
    return (json.dumps(lock.model_dump(mode="json", exclude_none=True), indent=1, sort_keys=True) + "\n").encode()


def put(**tables: Mapping[str, Any]) -> bool:
    """Store rows of tables of cards/lock.json, such as `weights={name: pin}`, in the place of rows with these keys.

    Return False if the file has these rows already.
    """
    return update(lambda lock: lock.model_copy(update={k: {**getattr(lock, k), **rows} for k, rows in tables.items()}))


def pin(name: str, weights: Pin) -> bool:
    """Pin a model's checkpoint in cards/lock.json, replacing an older pin. Return False if the file has this pin already."""
    return put(weights={name: weights})
