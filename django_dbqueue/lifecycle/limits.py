"""What bounds the queues of a table, asked at each enqueueing: hence worked out once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from django.core.signals import setting_changed

from ..fields import DbNow
from .limiter import base_of
from .policy import Policy
from .queue_options import policy_of_queue, says_anything

KNOWN_MAX = 4096  # queues whose limits are kept


def _is_bounded(model: type) -> bool:
    return says_anything(model, "max_length")


def _has_max_age(model: type) -> bool:
    return says_anything(model, "max_age")


def _limits_of(model: Any, queue: str) -> Policy:
    return policy_of_queue(model, base_of(model, queue))


_remembered = cache(_is_bounded), cache(_has_max_age), lru_cache(KNOWN_MAX)(_limits_of)
# Whether any queue of a table has a max_length, and whether of any its jobs get an expires_at.
is_bounded: Callable[[Any], bool] = _remembered[0]
has_max_age: Callable[[Any], bool] = _remembered[1]
# ``policy_of_queue``; a lane has the limits of its queue, and is counted by itself.
limits_of: Callable[[Any, str], Policy] = _remembered[2]


def expiry(model: type, queue: str, due: Any) -> Any:
    """The ``expires_at`` of a new job that is given none; ``due`` is its ``retry_at``."""
    seconds = limits_of(model, queue).max_age
    if seconds is None:
        return None
    if due is None:
        return DbNow(plus=seconds)
    if isinstance(due, DbNow):
        return DbNow(plus=due.plus + seconds)
    if not isinstance(due, datetime):
        return None  # an expression of the project's own
    try:
        return due + timedelta(seconds=seconds)
    except OverflowError:
        return None  # it is due when there is no calendar any more


def _forget(setting: str, **_: Any) -> None:
    if setting == "DBQUEUE":
        for one in _remembered:
            one.cache_clear()


setting_changed.connect(_forget)
