"""Reads config.json strictly, and compares it with the registry. Does not import torch."""

from pathlib import Path

from pydantic import ValidationError

from ..errors import CheckpointError, faults
from ..registry.schema import Config
from ..utils import files
from ..utils.text import refuse_repeats

FILE, VOCABULARY, GOLDEN, CARD = "config.json", "vocabulary.txt", "check.safetensors", "README.md"
"""Names of a checkpoint's files besides model.safetensors. GOLDEN holds recorded outputs, which `rnnzoo verify` compares."""
MAX_BYTES = 1_000_000
MAX_VOCABULARY_BYTES = 10_000_000


def read(path: Path) -> Config:
    """Return the content of a config.json. Raises CheckpointError if the file is missing or invalid."""
    try:
        content = files.read_regular(path, MAX_BYTES)
        config = Config.model_validate_json(content)
        refuse_repeats(content)
        return config
    except FileNotFoundError as error:
        runs = sorted(run.parent.name for run in path.parent.glob(f"seed-*/{FILE}"))
        hint = f" It holds the runs {', '.join(runs[:3])}{' ...' if len(runs) > 3 else ''}: choose one." if runs else ""
        raise CheckpointError(f"{path.parent} is not a checkpoint: it has no {FILE}.{hint}") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise CheckpointError(f"{path}: not a valid config.json: {faults(error)}.") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: not a valid config.json: {error}.") from error


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
