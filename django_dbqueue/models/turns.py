"""Exactly-once jobs where a database has one writer: one at a time, with gaps for other writers.

SQLite keeps no line of those who wait for its lock: each looks again, in the end every 0.1 s. Jobs
that take it back to back would leave them only moments, which few of them meet.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

EVERY = 1.0  # seconds from gap to gap, by the system's clock: all workers on a host leave the same
GAP = 0.12  # seconds in which everybody who waits looks once

_nap = threading.Event()


class Turns:
    """Of this process, for one database."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # By the monotonic clock, when the last job ended, and the last gap.
        self._ended_at = 0.0
        self._gap_at = 0.0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Hold the database's lock meanwhile."""
        with self._lock:
            _nap.wait(self._gap_left())
            try:
                yield
            finally:
                self._ended_at = time.monotonic()

    def _gap_left(self) -> float:
        """Seconds for which the lock is to be left alone; 0 where it was free long enough."""
        now, into_second = time.monotonic(), time.time() % EVERY
        left = 0.0
        if now - self._ended_at < GAP:
            if now - self._gap_at > EVERY:
                left = GAP  # a long job has run over the last one
            elif into_second < GAP:
                left = GAP - into_second
            else:
                return 0.0
        self._gap_at = now + left
        return left


@cache
def turns_of(_alias: str) -> Turns:
    return Turns()
