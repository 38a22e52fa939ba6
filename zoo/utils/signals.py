"""SIGINT and SIGTERM for work that has to reach a safe end first."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Send signals to `handler` within the block. Does nothing outside the main thread, which alone can set handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def interruptions(most: float = math.inf) -> Iterator[Callable[[], int]]:
    """Count SIGINT and SIGTERM within the block instead of stopping; yields a function that returns the count so far.

    Each signal after the first `most` raises KeyboardInterrupt.
    """
    count = 0

    def handle(number: int, frame: object) -> None:
        nonlocal count
        if count >= most:
            raise KeyboardInterrupt
        count += 1

    with handled(handle, signal.SIGINT, signal.SIGTERM):
        yield lambda: count
