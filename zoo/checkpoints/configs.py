"""Reads config.json strictly, compares it with the registry, and gives a config other outputs or dropout. Does not import torch."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from ..errors import CheckpointError, RequestError, faults, shown
from ..registry import load_registry
from ..registry.schema import Architecture, Config, Interface
from ..utils.arguments import plain
from . import strict_json

FILE, VOCABULARY, GOLDEN, CARD = "config.json", "vocabulary.txt", "check.safetensors", "README.md"
"""Names of a checkpoint's files besides model.safetensors. GOLDEN holds recorded outputs, which `rnnzoo verify` compares."""
MAX_BYTES = 1_000_000
MAX_VOCABULARY_BYTES = 10_000_000


def read(path: Path) -> Config:
    """Return the content of a config.json. Raises CheckpointError if the file is missing or invalid."""
    load_registry()  # a config may name a cell that it declares
    try:
        return strict_json.read(path, Config, MAX_BYTES)
    except CheckpointError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        runs = sorted(run.parent.name for run in path.parent.glob(f"seed-*/{FILE}"))
        hint = f" It holds the runs {', '.join(runs[:3])}{' ...' if len(runs) > 3 else ''}: choose one." if runs else ""
        raise CheckpointError(f"{path.parent} is not a checkpoint: it has no {FILE}.{hint}") from error


def must_agree(config: Config, registered: Config, path: Path) -> None:
    """Raise CheckpointError, listing the differences, unless the config read from `path` equals the registry's."""
    if config == registered:
        return
    actual, expected = config.model_dump(), registered.model_dump()
    differences = [
        f"{part}.{key} is {actual[part].get(key)!r} in the file and {expected[part].get(key)!r} in the registry"
        for part in ("architecture", "interface")
        for key in {**actual[part], **expected[part]}
        if actual[part].get(key) != expected[part].get(key)
    ] or [
        f"{key} is {actual[key]!r} in the file and {expected[key]!r} in the registry"
        for key in ("name", "task")
        if actual[key] != expected[key]
    ]
    raise CheckpointError(
        f"{path} disagrees with the registry: {'; '.join(differences)}. Use files of the registered model, or correct "
        "registry.yaml."
    )


def with_classes(config: Config, classes: int | Sequence[str]) -> Config:
    """Return `config` with this number of outputs, or outputs of these names, and named after its architecture.

    Raises RequestError for invalid `classes`.
    """
    classes = plain(classes)
    named = isinstance(classes, Sequence) and not isinstance(classes, str)
    names, outputs = (tuple(classes), len(classes)) if named else ((), classes)  # type: ignore[arg-type]
    if named and not names:
        raise RequestError("A head cannot have 0 outputs. For a network without a head, pass 0, not an empty list.")
    try:
        interface = Interface(**{**config.interface.model_dump(), "outputs": outputs, "classes": names})
    except ValidationError as error:
        wrong = "these classes" if named else f"{shown(outputs)} outputs"
        raise RequestError(f"A head cannot have {wrong}: {faults(error)}") from error
    return config.model_copy(update={"name": config.architecture.prefix, "interface": interface})


def with_dropout(config: Config, dropout: float | None, recurrent_dropout: float | None) -> Config:
    """Return `config` with these probabilities; None keeps one. Raises RequestError for those that the network cannot have."""
    given = {"dropout": dropout, "recurrent_dropout": recurrent_dropout}
    rates = {name: plain(rate) for name, rate in given.items() if rate is not None}
    try:
        architecture = Architecture(**{**config.architecture.model_dump(), **rates})
        if rates.get("dropout") and architecture.layers == 1 and architecture.block is None:
            raise RequestError(
                f"{config.name} has one layer, and dropout lies between layers. Use recurrent_dropout, or leave out dropout."
            )
        return config.model_copy(update={"architecture": architecture})
    except ValidationError as error:
        raise RequestError(f"{config.name} cannot have this dropout: {faults(error)}") from error
