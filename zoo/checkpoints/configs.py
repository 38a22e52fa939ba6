"""Reads config.json strictly, and compares it with the registry. Does not import torch."""

from pathlib import Path

from ..errors import CheckpointError
from ..registry import load_registry
from ..registry.schema import Config
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
