"""Counts how much of a connection's time limit is left, which `guard` enforces and whose default is in `settings`.

Also counts the requests that have failed in a row.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MIN_RATE = 1000
"""Minimum rate, in bytes per second, at which the time of a file transfer does not count."""


class Budget:
    """The seconds that all calls of one connection may take together, waits and repeated requests included.

    The time of a file transfer, download or upload, does not count while the file advances at MIN_RATE or faster.
    """

    def __init__(self, seconds: float):
        self.total = self._unspent = seconds
        self._deadline: float | None = None
        self._file_deadline = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time within the block. Blocks may be nested."""
        if self._deadline is not None:
            yield
            return
        self._deadline, self._file_deadline = time.monotonic() + self._unspent, 0.0
        try:
            yield
        finally:
            self._unspent, self._deadline = self._deadline - time.monotonic(), None

    def renew(self) -> None:
        """Reset the time left to the whole limit."""
        self._unspent = self.total

    def left(self) -> float:
        """Return the seconds left; zero or less if the time is up."""
        if self._deadline is None:
            return self._unspent
        return max(self._deadline, self._file_deadline) - time.monotonic()

    def spent(self) -> float:
        """Return the seconds that have counted so far."""
        return max(0.0, self.total - self.left())

    @contextmanager
    def transferring(self) -> Iterator["Transfer"]:
        """Yield a Transfer. The time within the block does not count while the transfer advances at MIN_RATE or faster."""
        transfer = Transfer(self)
        try:
            yield transfer
        finally:
            self._file_deadline = 0.0
            if self._deadline is not None:
                self._deadline += min(time.monotonic() - transfer.began, transfer.bytes / MIN_RATE)

    def extend(self, deadline: float) -> None:
        """Let the current file transfer go on until time.monotonic() is `deadline`, even if the limit ends earlier."""
        self._file_deadline = deadline


class Transfer:
    """The transfer of a file, or of one chunk of it, which began when this object was made."""

    def __init__(self, budget: Budget):
        self.budget, self.began, self.bytes = budget, time.monotonic(), 0

    def advance(self, count: int) -> None:
        """Add `count` bytes to those transferred, and extend the deadline of `budget`: each MIN_RATE bytes allow a second."""
        self.bytes += count
        self.budget.extend(self.began + self.bytes / MIN_RATE)


class Failures(threading.local):
    """Counts the requests of one thread that have failed in a row. A request that fails in several ways counts once."""

    number = 0
    refused = 0
    """How many of the `number` failed requests failed because the server refused the connection."""
    counted = False
    """True if the failure of the current request is counted in `number` already."""

    def begin_request(self) -> None:
        self.counted = False

    def add(self, refused: bool = False) -> None:
        if not self.counted:
            self.number, self.refused, self.counted = self.number + 1, self.refused + refused, True

    def clear(self) -> None:
        self.number = self.refused = 0

    @property
    def next_wait(self) -> float:
        """The seconds that the client waits before the next try: 2 ** (number - 1), but at most 8."""
        return min(2.0 ** (self.number - 1), 8.0)
