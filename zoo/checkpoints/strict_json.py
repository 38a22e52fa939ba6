"""Reads the JSON files of a checkpoint strictly: unknown fields, invalid values and repeated names are refused."""

import json
from collections import Counter
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from ..errors import CheckpointError, faults
from ..registry.schema import Spec
from ..utils import files

S = TypeVar("S", bound=Spec)


def read(path: Path, kind: type[S], most: int) -> S:
    """Return the content of a JSON file as a `kind`.

    Raises CheckpointError if the file cannot be read, has more than `most` bytes, or is invalid.
    """
    try:
        content = files.read_regular(path, most)
        found = kind.model_validate_json(content)
        refuse_repeats(content)
        return found
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValidationError as error:
        raise CheckpointError(f"{path}: not a valid {path.name}: {faults(error)}") from error
    except ValueError as error:
        raise CheckpointError(f"{path}: not a valid {path.name}: {error}.") from error


def refuse_repeats(content: bytes) -> None:
    """Raise ValueError if an object in JSON `content` has a name twice; a reader would silently drop one of the values."""
    json.loads(content, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, object]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"{Counter(names).most_common(1)[0][0]!r} occurs twice")
