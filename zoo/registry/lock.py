"""The `weights` section of registry.yaml: the pins of the published checkpoints, written by programs."""

import io
import re

from ruamel.yaml import YAML

from .. import registry
from ..utils import files, paths
from .schema import Weights

SECTION = re.compile(r"^weights:.*(?:\n+[ \t].*)*\n?", re.MULTILINE)


def write(name: str, weights: Weights) -> bool:
    """Pin a checkpoint in registry.yaml, in place of an older pin; False if that is what it said already.

    The other pins are read anew, alone, so that two programs that write at once both have their way. Raises OSError.
    """
    path = paths.path("registry.yaml")
    with files.alone(path.parent):
        everything = registry.read(path).weights
        if everything.get(name) == weights:
            return False
        section, text = _section({**everything, name: weights}), path.read_text(encoding="utf-8")
        written, there = SECTION.subn(lambda _: section, text, count=1)
        files.replace(path, (written if there else f"{text}\n{section}").encode())
    registry.registry.cache_clear()
    registry.models.cache_clear()
    return True


def _section(weights: dict[str, Weights]) -> str:
    text = io.StringIO()
    data = {name: weights[name].model_dump(mode="json", exclude_none=True) for name in sorted(weights)}
    YAML().dump({"weights": data}, text)
    return text.getvalue()
