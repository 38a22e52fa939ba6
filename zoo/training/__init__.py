"""From a recipe to a checkpoint, and from a checkpoint to a result: one run, many runs, evaluation."""

from collections.abc import Callable, Sequence

Recorder = Callable[..., Sequence[float | None]]
"""What training calls after every epoch to record a diagnostic: (network, x, y, lengths, target) to one number a layer."""
