"""SIGINT and SIGTERM, where work has to come to a safe end first."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Within the block, signals go to `handler`; only the main thread can set that, so in another one nothing changes."""
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
    """Within the block, SIGINT and SIGTERM are only counted, and one after `most` is a KeyboardInterrupt; gives the count
    so far."""
    count = 0

    def note(number: int, frame: object) -> None:
        nonlocal count
        if count >= most:
            raise KeyboardInterrupt
        count += 1

    with handled(note, signal.SIGINT, signal.SIGTERM):
        yield lambda: count
