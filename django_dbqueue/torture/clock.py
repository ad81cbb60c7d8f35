"""An application host whose clock is wrong, for one process."""

import datetime
import time
from typing import Any

from django.utils import timezone

_Real = datetime.datetime


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)


def shift(seconds: float) -> None:
    """Let this process's clock be wrong from here on. The monotonic clock goes on as it was, and
    the database has its own."""
    real_time, real_time_ns = time.time, time.time_ns
    time.time = lambda: real_time() + seconds
    time.time_ns = lambda: real_time_ns() + int(seconds * 1e9)
    by = datetime.timedelta(seconds=seconds)

    class Shifted(_Real, metaclass=_Kind):
        """Makes real ones, so that drivers know their type."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _Real(*args, **kwargs)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _Real.now(tz) + by

    datetime.datetime = Shifted  # type: ignore[misc]
    timezone.now = lambda: _Real.now(datetime.UTC) + by
