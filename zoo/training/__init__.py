"""Trains one model or many, and evaluates checkpoints."""

from collections.abc import Callable, Sequence

Recorder = Callable[..., Sequence[float | None]]
"""A function that computes a diagnostic after every epoch: f(network, x, y, lengths, target) returns a number per layer."""
