"""Which jobs of a queue table share a rate, and how high it is.

Jobs of one key stand in a lane, a queue of its own that is called after it (``default@smtp``): a
key that has used up its rate keeps no other one waiting, however many of its jobs wait in front.
"""

import logging
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.module_loading import import_string

from ..conf import cached
from ..exceptions import shown
from ..fields import check_name
from ..guard import capture, message_of
from .policy import policy_of
from .queue_options import policy_of_queue, says_anything
from .rates import Rate, rates_of

SEPARATOR = "@"
logger = logging.getLogger("django_dbqueue")

# The lane of jobs that a hand has written, so that they have no key.
NO_KEY = "?"
# A start counts so much later at the most.
LATE_SECONDS = 0.03


class Limiter:
    """What ``rate``, ``rate_burst`` and ``rate_key`` say; apps may say it otherwise."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.has_lanes = says_anything(model, "rate_key")

    def base_of(self, queue: str) -> str:
        """The queue that a lane belongs to; a queue that is no lane is its own."""
        return queue.partition(SEPARATOR)[0] if self.has_lanes else queue

    def lane_of(self, job: Any) -> str:
        """The queue in which a job waits: its own, or the lane of its key. ``ValidationError``
        where it has no such key."""
        base = self.base_of(job.queue)
        wanted = policy_of_queue(self.model, base).rate_key
        if wanted is None or policy_of_queue(self.model, base).rate is None:
            return str(job.queue)
        key = _key(wanted, job)
        if not key:
            return base
        lane = f"{base}{SEPARATOR}{key}"
        try:
            check_name(lane, "queue")
        except ValidationError as error:
            problem = f"rate_key: {shown(lane)} names no lane: {error.messages[0]}"
            raise ValidationError({"queue": problem}) from None
        return lane

    def rates(self, queue: str) -> list[Rate]:
        """Of the bucket that a queue, or lane, takes its tokens from; [] = there is none."""
        policy = policy_of_queue(self.model, self.base_of(queue))
        if policy.rate is None or (policy.rate_key and SEPARATOR not in queue):
            return []
        return rates_of(policy.rate, "rate")

    def burst(self, queue: str) -> int | None:
        return policy_of_queue(self.model, self.base_of(queue)).rate_burst

    def bucket_of(self, queue: str) -> str:
        """Its name."""
        return queue

    def rest(self, queue: str, using: str) -> float:
        """Seconds for which nothing of a queue may start at all."""
        return 0.0

    def is_limited(self, queue: str, using: str) -> bool:
        return bool(self.rates(queue))

    def order(self, queue: str) -> int:
        """Among queues of one bucket, which one goes first: the lowest."""
        return 0

    def cost(self, job: Any) -> int:
        """How many tokens a job takes."""
        return 1

    def used_at(
        self, begun: float, ended: float | None, now: float, fastest: float
    ) -> float | None:
        """When a token counts as used, by the clock that the others are of; None = that is not
        known yet. ``fastest``: the shortest time that a job took of late.

        Somebody else may count a start a little later, but not after the end of its job.
        """
        if ended is not None:
            return min(ended, begun + LATE_SECONDS)
        return begun + LATE_SECONDS if now > begun + LATE_SECONDS else None

    def strays(self, jobs: list[Any], using: str) -> dict[str, list[Any]]:
        """By lane, those claimed jobs that are not to run from the queue in which they were."""
        if not self.has_lanes:
            return {}
        found: dict[str, list[Any]] = {}
        for job in jobs:
            try:
                lane = self.lane_of(job)
            except ValidationError as error:
                logger.warning("%s: %s", job, "; ".join(error.messages))
                lane = f"{self.base_of(job.queue)}{SEPARATOR}{NO_KEY}"
            if lane != job.queue:
                found.setdefault(lane, []).append(job)
        return found


def _key(wanted: Any, job: Any) -> str:
    with capture() as look:
        key = wanted(job) if callable(wanted) else wanted.format_map(_Columns(job))
    if look.error is not None:
        what = f"{type(look.error).__name__}: {message_of(look.error)}"
        raise ValidationError({"queue": f"rate_key gave no key: {what}"}) from look.error
    return "" if key is None else str(key)


class _Columns(dict[str, Any]):
    """A job's attributes, for a format string."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def __missing__(self, name: str) -> Any:
        return getattr(self._job, name)


@cached()
def limiter_of(model: Any) -> Limiter | None:
    """None where no queue of the table has a rate."""
    if path := policy_of(model).limiter:
        made: Limiter = import_string(path)(model)
        return made
    return Limiter(model) if says_anything(model, "rate") else None


def base_of(model: Any, queue: str) -> str:
    """The queue that a lane belongs to."""
    limiter = limiter_of(model)
    return queue if limiter is None else limiter.base_of(queue)


def has_lanes(model: Any) -> bool:
    """Whether jobs of the table stand in lanes, which are worked out of whole jobs."""
    limiter = limiter_of(model)
    return limiter is not None and limiter.has_lanes


def place_in_lane(job: Any) -> None:
    """Put a new job into the lane of its key; ``ValidationError`` where it has none."""
    limiter = limiter_of(type(job))
    if limiter is not None and limiter.has_lanes:
        job.queue = limiter.lane_of(job)
