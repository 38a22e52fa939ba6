"""Train one model or many, and evaluate checkpoints."""

from collections.abc import Callable, Sequence

Recorder = Callable[..., Sequence[float | None]]
"""Computes a diagnostic after every epoch: called with (network, x, y, lengths, target), it returns a number per layer."""
