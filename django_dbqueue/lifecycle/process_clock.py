"""The clock of this process, by which tokens of rates are given out; a test may set it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Given(threading.local):
    now: Callable[[], float] | None = None


_given = _Given()


def monotonic() -> float:
    """Seconds, as ``time.monotonic()``, but where ``reads`` says otherwise."""
    return time.monotonic() if _given.now is None else _given.now()


@contextmanager
def reads(now: Callable[[], float]) -> Iterator[None]:
    """While this lasts, the clock reads so on the calling thread."""
    before, _given.now = _given.now, now
    try:
        yield
    finally:
        _given.now = before
