"""A host whose clock is wrong: on PYTHONPATH, it shifts the wall clock of a whole process.

``CLOCK_OFFSET``: seconds ahead; ``CLOCK_RATE``: how many seconds pass in one. Durations, which
hosts measure by the monotonic clock, are right.
"""

import datetime
import os
import time

OFFSET = float(os.environ.get("CLOCK_OFFSET", "0"))
RATE = float(os.environ.get("CLOCK_RATE", "1"))
right_time, right_datetime = time.time, datetime.datetime
BEGAN = right_time()


def wrong_time():
    return BEGAN + OFFSET + RATE * (right_time() - BEGAN)


class AnyDatetime(type(right_datetime)):
    def __instancecheck__(cls, value):
        return isinstance(value, right_datetime)

    def __subclasscheck__(cls, other):
        return issubclass(other, right_datetime)


class WrongDatetime(right_datetime, metaclass=AnyDatetime):
    """Gives plain datetimes, so that nobody sees a difference but in the time."""

    def __new__(cls, *args, **kwargs):
        return right_datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz=None):
        return right_datetime.fromtimestamp(wrong_time(), tz)

    @classmethod
    def utcnow(cls):
        return right_datetime.fromtimestamp(wrong_time(), datetime.UTC).replace(tzinfo=None)

    @classmethod
    def today(cls):
        return cls.now()


if OFFSET or RATE != 1:
    time.time = wrong_time
    time.time_ns = lambda: int(wrong_time() * 1e9)
    datetime.datetime = WrongDatetime
