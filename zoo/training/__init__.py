"""Trains one model or many, and evaluates checkpoints."""

from collections.abc import Callable, Sequence

Recorder = Callable[..., Sequence[float | None]]
"""A diagnostic computed after every epoch: f(network, x, y, lengths, target) returns one number, or None, for each layer."""
