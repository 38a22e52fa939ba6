"""config.json: read strictly, and held against the registry; no torch."""

from pathlib import Path

from pydantic import ValidationError

from ..errors import CheckpointError, first_problem
from ..registry.schema import Config

FILE, VOCABULARY, GOLDEN, CARD = "config.json", "vocabulary.txt", "check.safetensors", "README.md"
MAX_BYTES = 1_000_000
MAX_VOCABULARY_BYTES = 10_000_000


def read(path: Path) -> Config:
    """Read and validate a config.json; raises CheckpointError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointError(f"{path}: larger than a config.json can be.")
        return Config.model_validate_json(path.read_bytes())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise CheckpointError(f"{path}: not a valid config.json: {first_problem(error)}.") from error


def must_agree(found: Config, expected: Config, path: Path) -> None:
    """Raise CheckpointError, listing what differs, unless a config.json says what the registry says."""
    if found == expected:
        return
    a, b = found.model_dump(), expected.model_dump()
    differ = [
        f"{part}.{key} is {value!r} there and {b[part].get(key)!r} in the registry"
        for part in ("architecture", "interface")
        for key, value in a[part].items()
        if value != b[part].get(key)
    ] or [f"{key} is {a[key]!r} there and {b[key]!r} in the registry" for key in ("name", "task") if a[key] != b[key]]
    raise CheckpointError(f"{path} disagrees with the registry: {'; '.join(differ)}.")
