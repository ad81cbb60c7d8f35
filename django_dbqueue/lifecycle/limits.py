"""What bounds the queues of a table, asked at each enqueueing, so worked out once."""

from datetime import timedelta
from typing import Any

from ..conf import cached, conf
from ..fields import DbNow, later
from .limiter import base_of
from .policy import Policy
from .queue_options import policy_of_queue, says_anything

KNOWN_MAX = 4096  # queues whose limits are kept


@cached()
def is_bounded(model: type) -> bool:
    """Whether any queue of the table has a max_length."""
    return says_anything(model, "max_length")


@cached()
def has_max_age(model: type) -> bool:
    """Whether the jobs of any queue of the table get an expires_at."""
    return says_anything(model, "max_age")


@cached(KNOWN_MAX)
def limits_of(model: Any, queue: str) -> Policy:
    """``policy_of_queue``; a lane has the limits of its queue, and is counted by itself."""
    return policy_of_queue(model, base_of(model, queue))


def late_after(model: type, queue: str) -> float:
    """Seconds for which its oldest ready job may wait until that is a problem."""
    seconds = limits_of(model, queue).late_after
    return float(conf["LATE_AFTER"] if seconds is None else seconds)


def expiry(model: type[Any], queue: str, due: Any) -> Any:
    """The ``expires_at`` of a new job that is given none; ``due`` is its ``retry_at``."""
    seconds = limits_of(model, queue).max_age
    if seconds is None:
        return None
    if due is None:
        return DbNow(plus=seconds)
    if isinstance(due, DbNow):
        return DbNow(plus=due.plus + seconds)
    if hasattr(due, "resolve_expression"):
        return None  # of the project's own
    moment = model._meta.get_field("retry_at").to_python(due)
    try:
        return later(moment, timedelta(seconds=seconds))
    except OverflowError:
        return None  # it is due when there is no calendar any more
