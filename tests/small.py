"""What small zoos are made of: the declared registry, sizes, a recipe, and how to forget what was read of a registry."""

from functools import cache
from pathlib import Path
from typing import Any

from zoo import registry
from zoo.networks import sizes
from zoo.registry import yaml

RECIPE = {"optimizer": {"name": "adam", "lr": 0.01}, "batch_size": 20, "epochs": 3, "max_grad_norm": 1.0}
TRAIN, VALIDATION = 160, 40
"""Number of examples of the small MNIST."""


@cache
def declared() -> dict[str, Any]:
    """What registry.yaml and sources.yaml say, in lists and dictionaries."""
    files = (Path(__file__).parent.parent / name for name in ("registry.yaml", "sources.yaml"))
    return {section: content for file in files for section, content in yaml.parse(file.read_text()).content.items()}


def clear_caches() -> None:
    """Forget what was read of a registry and counted of its models."""
    registry.clear_caches()
    sizes.counts.cache_clear()
