"""A host whose clock is wrong: on PYTHONPATH, it shifts the wall clock of a whole process.

``CLOCK_OFFSET``: seconds ahead; ``CLOCK_RATE``: how many seconds pass in one. Durations, which
hosts measure by the monotonic clock, are right.
"""

import datetime
import os
import time
from datetime import datetime as right_datetime
from typing import Any

OFFSET = float(os.environ.get("CLOCK_OFFSET", "0"))
RATE = float(os.environ.get("CLOCK_RATE", "1"))
right_time = time.time
BEGAN = right_time()


def wrong_time() -> float:
    return BEGAN + OFFSET + RATE * (right_time() - BEGAN)


class AnyDatetime(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, right_datetime)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, right_datetime)


class WrongDatetime(right_datetime, metaclass=AnyDatetime):
    """Gives plain datetimes, so that nobody sees a difference but in the time."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return right_datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return right_datetime.fromtimestamp(wrong_time(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        return right_datetime.fromtimestamp(wrong_time(), datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls) -> Any:
        return cls.now()


if OFFSET or RATE != 1:
    time.time = wrong_time
    time.time_ns = lambda: int(wrong_time() * 1e9)
    datetime.datetime = WrongDatetime  # type: ignore[misc]
