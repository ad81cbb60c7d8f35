"""The clocks of this process, by which tokens of rates are given out; a test may set them."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from django.conf import settings
from django.utils import timezone


class _Given(threading.local):
    now: Callable[[], float] | None = None


_given = _Given()


def monotonic() -> float:
    """Seconds, as ``time.monotonic()``, but where ``reads`` says otherwise."""
    return time.monotonic() if _given.now is None else _given.now()


def now() -> datetime:
    """The present, as ``django.utils.timezone.now()``, but where ``reads`` says otherwise."""
    if _given.now is None:
        return timezone.now()
    return datetime.fromtimestamp(_given.now(), UTC if settings.USE_TZ else None)


@contextmanager
def reads(now: Callable[[], float]) -> Iterator[None]:
    """While this lasts, the clocks read so on the calling thread, in seconds since 1970."""
    before, _given.now = _given.now, now
    try:
        yield
    finally:
        _given.now = before
