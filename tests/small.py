"""The sizes and the recipe of the small zoo of conftest.py, and how to forget what was read of a registry."""

from zoo import registry
from zoo.networks import sizes

RECIPE = {"optimizer": {"name": "adam", "lr": 0.01}, "batch_size": 20, "epochs": 3, "max_grad_norm": 1.0}
TRAIN, VALIDATION = 160, 40
"""Number of examples of the small MNIST."""


def clear_caches() -> None:
    """Forget what was read of a registry and counted of its models."""
    registry.clear_caches()
    sizes.counts.cache_clear()
