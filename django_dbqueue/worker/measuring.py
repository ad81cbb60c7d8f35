"""What waits for a worker, which its agents measure: its supervisor asks no database."""

import time
from collections.abc import Callable

from django.db import connections
from django.db.utils import Error

from ..dialects import ErrorKind, dialect_of
from ..lifecycle.backlog import count_ready, heads_by_priority
from ..lifecycle.limiter import limiter_of
from ..lifecycle.ready_queues import lane_heads, ready_queues
from ..lifecycle.table import Table
from ..models import Queue, RateBucket
from ..models.queue import is_among
from .assignment import QueueName
from .channel import Backlog, Waiting
from .options import Options
from .served import Served
from .session import LOCKED_SECONDS, ReconnectBackoff, Session

MEASURE_SECONDS = 1.0  # between two looks, of which there are three in a cooldown
SHARE_MAX = 0.05  # of an agent's time that looks may take
PATIENCE_SECONDS = 3.0  # for which figures are believed once new ones are due
QUEUES_MAX = 100  # of a table
PRIORITIES_MAX = 10  # of a queue, the most urgent ones
COUNTED_MAX = 10_000  # jobs of a table
SPENT_SECONDS = 5.0  # for which a rate counts as used up: some tokens come back at any moment


class Measurer:
    """Tells a supervisor how many jobs are ready in each queue that it serves on one database."""

    def __init__(
        self, options: Options, alias: str, session: Session, tell: Callable[[Backlog], object]
    ) -> None:
        self.options = options
        self.served = [one for one in options.served if one.using == alias]
        self.alias = alias
        self.session = session
        self.tell = tell
        self.backoff = ReconnectBackoff("counting what waits")
        self.next_at = 0.0
        self.interval = min(MEASURE_SECONDS, options.scaling.balance_cooldown / 3)
        # When each queue that has ready jobs was last seen without.
        self._empty_at: dict[QueueName, float] = {}
        self._looked_at = float("-inf")
        # When the rate of a queue was last seen to be used up.
        self._spent_at: dict[QueueName, float] = {}
        # Tables that somebody has locked, and until when they are left alone.
        self._locked_until: dict[str, float] = {}

    def turn(self) -> float:
        """Measure where that is due; seconds until the next time."""
        now = time.monotonic()
        if now >= self.next_at:
            try:
                self.session.prepare()
                self._measure()
            except Error as error:
                self.session.recover(error)
                self.next_at = now + self.backoff.failed(error)
            else:
                self.backoff.worked()
        return max(0.0, self.next_at - time.monotonic())

    def _measure(self) -> None:
        began = time.monotonic()
        waiting = [one for served in self.served for one in self._of_table(served)]
        connection = connections[self.alias]
        with connection.cursor() as cursor:
            room = dialect_of(connection).connection_room(cursor)
        names = {one.name for one in waiting}
        self._empty_at = {name: self._empty_at.get(name, self._looked_at) for name in names}
        self._looked_at = began
        now = time.monotonic()
        self.next_at = now + max(self.interval, (now - began) / SHARE_MAX)
        self.tell(Backlog(self.next_at + PATIENCE_SECONDS, tuple(waiting), room))

    def _of_table(self, served: Served) -> list[Waiting]:
        table = self.options.table(served.model, served.using)
        left, found = COUNTED_MAX, list[Waiting]()
        if time.monotonic() < self._locked_until.get(served.label, 0.0):
            return []
        try:
            control = Queue.objects.db_manager(self.alias)
            paused = control.paused(served.job_table, force=self.options.force)
            for queue in _names(table, served):
                if is_among(paused, served.model, queue):
                    continue
                name = QueueName(self.alias, served.label, str(queue))
                if not served.takes(queue) or self._is_spent(served, name):
                    continue
                seconds = self._oldest(table, queue, name)
                if seconds is None:
                    continue
                count = min(left, count_ready(table, queue, left)) if left else 1
                left -= count
                found.append(Waiting(name, max(1, count), seconds))
        except Error as error:
            # Of one that is locked or not migrated, nothing is known.
            kind = table.dialect.error_kind(error)
            if kind is ErrorKind.AGAIN:
                self._locked_until[served.label] = time.monotonic() + LOCKED_SECONDS
            elif kind:
                raise
        return found

    def _is_spent(self, served: Served, name: QueueName) -> bool:
        """Whether it is a rate that keeps the jobs of a queue waiting: no more workers help."""
        limiter = limiter_of(served.model)
        if limiter is None or not limiter.is_limited(name.queue, self.alias):
            return False
        now = time.monotonic()
        buckets = RateBucket.objects.db_manager(self.alias)
        bucket = limiter.bucket_of(name.queue)
        rates = limiter.rates(name.queue)
        if (
            limiter.rest(name.queue, self.alias)
            or buckets.peek(served.job_table, bucket, rates).is_used_up
        ):
            self._spent_at[name] = now
        return now - self._spent_at.get(name, float("-inf")) < SPENT_SECONDS

    def _oldest(self, table: Table, queue: str, name: QueueName) -> float | None:
        """For how long the first ready jobs may have waited; None = there are none.

        Nobody notes when a job becomes ready that was delayed, given back or tried again. None has
        been so for longer than the queue has had ready jobs.
        """
        now = time.monotonic()
        longest = now - self._empty_at.get(name, self._looked_at)
        heads = heads_by_priority(table, queue, PRIORITIES_MAX)
        ages = [min(longest, head.age or 0.0) for head in heads]
        return max(0.0, *ages) if ages else None


def _names(table: Table, served: Served) -> list[str]:
    """The queues to look at; of those that are named by patterns, or not at all, that are ready."""
    exact = served.exact
    if not exact or exact != served.wanted:
        return ready_queues(table, QUEUES_MAX)
    with_lanes = exact if served.has_lanes else ()
    lanes = [head.queue for name in with_lanes for head in lane_heads(table, name, QUEUES_MAX)]
    return [*exact, *lanes]
