"""Reads the facts about every model that `rnnzoo list` and shell completion need from cards/lock.json, without pydantic.

Reading registry.yaml takes much longer, because the whole file is validated. The lock's index carries a digest of the
registry.yaml and sources.yaml that it was made from, and is ignored if one of them has changed since.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..utils import paths
from ..utils.arguments import matching
from .metrics import Target

FILE = ("cards", "lock.json")
"""The lock, below the root."""


@dataclass(frozen=True)
class Summary:
    """The facts that a list of models shows about one model."""

    cell: str
    task: str
    target: Target
    reported_percent: tuple[float, ...]
    reported_text: str | None
    pretrained: bool
    """True if the lock pins published weights."""
    parameters: int | None = None
    """Number of parameters; None if the lock does not have it yet."""


def read() -> dict[str, Summary] | None:
    """Return the summary of every model by name, sorted; None if the lock's index is missing or out of date."""
    try:
        lock = json.loads(paths.path(*FILE).read_bytes())
        return summaries(lock) if lock["index"]["registry_sha256"] == registry_sha256() else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # the strict readers of the lock and the registry say what is wrong


def summaries(lock: dict[str, Any]) -> dict[str, Summary]:
    """Return the summary of every model by name, sorted. lock: the content of cards/lock.json."""
    counts, pins = lock["counts"], lock["weights"]
    return {
        name: Summary(
            row["cell"], row["task"], row["target"], tuple(row["reported_percent"]), row.get("reported_text"),
            name in pins, counts[name]["parameters"] if name in counts else None,
        )
        for name, row in sorted(lock["index"]["models"].items())
    }  # fmt: skip


def select(
    models: Mapping[str, Summary], pattern: str | Sequence[str], exclude: str | Sequence[str], task: str | None,
    cell: str | None, pretrained: bool | None,
) -> list[str]:  # fmt: skip
    """Return the names of those `models` that `zoo.registry.list_models` returns for these arguments."""
    return [
        name
        for name in matching(models, pattern, exclude)
        if task in (None, models[name].task)
        and cell in (None, models[name].cell)
        and pretrained in (None, models[name].pretrained)
    ]


def registry_sha256() -> str:
    """Return the sha256, in hexadecimal, of registry.yaml followed by sources.yaml if there is one. Raises OSError."""
    digest, sources = hashlib.sha256(paths.path("registry.yaml").read_bytes()), paths.path("sources.yaml")
    if sources.exists():
        digest.update(sources.read_bytes())
    return digest.hexdigest()
