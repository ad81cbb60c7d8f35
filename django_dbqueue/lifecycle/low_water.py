"""Where the ready jobs of each queue begin, as far as a claimer has seen.

A snapshot that somebody holds open keeps the database from clearing away the dead entries in front
of the ready ones. Some databases pass over all of them, so that every look takes longer than the
last; it is quick where it begins at a job that was ready a moment ago. What became ready below such
a floor meanwhile (kicked, retried, more urgent, committed late) waits for a whole look, which comes
at once where there is news, or nothing else to do.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..dialects.types import Floor
from .execute import rows
from .table import Table

# Seconds per queue that a whole look may take, and for its way so many times that of a statement
# that looks at nothing; then there are no floors.
CHEAP = 0.002
TRIPS = 2.0
LONGEST = 1.0  # seconds between two whole looks, unless these take long
LEAST_SHARE = 10.0  # no whole look follows before so many times as long as the last one took
SHARE = 100.0  # a whole look follows after so many times as long as the last one took
IDLE_SHARE = 10.0  # and after so many where nothing is ready from the floors on
WHOLE_EVERY = 5.0  # seconds between two claims without a floor
MOST_QUEUES = 20
MOST_PRIORITIES = 3


class Head(NamedTuple):
    """The first ready job of a queue."""

    queue: str
    priority: int
    key: Any


@dataclass
class QueueMarks:
    """What is known of a queue: by priority the lowest key that was ready at the last claim."""

    keys: dict[int, int] = field(default_factory=dict)
    # When all of it is to be claimed from, from the clock's beginning on: now.
    whole_at: float = 0.0

    def holds(self, priority: int, key: Any) -> bool:
        """Whether a job is at or above the floor."""
        return priority in self.keys and bool(key >= self.keys[priority])


class LowWaterMarks:
    """The floors of one queue table's queues; in force only while whole looks are slow."""

    def __init__(self) -> None:
        self._by_queue: dict[str, QueueMarks] = {}
        self.in_force = False
        self._look_at = 0.0
        self._may_look_at = 0.0

    @property
    def may_look(self) -> bool:
        """Whether there is time for a whole look, since there is nothing else to do."""
        return time.monotonic() >= self._may_look_at

    @property
    def must_look(self) -> bool:
        """Whether the time for a whole look has come."""
        return not self.in_force or time.monotonic() >= self._look_at

    @property
    def queues(self) -> list[str]:
        return list(self._by_queue)

    def of(self, queue: str) -> list[Floor]:
        """The floors of a queue, the most urgent first."""
        return sorted(self._by_queue[queue].keys.items()) if queue in self._by_queue else []

    def for_claim(self, queue: str) -> list[Floor] | None:
        """The floors from which to claim; none where the whole queue is to be seen, and None where
        no floors are in force."""
        if not self.in_force:
            return None
        marks = self._by_queue.get(queue)
        is_whole = marks is None or time.monotonic() >= marks.whole_at
        return [] if is_whole else self.of(queue)

    def looked(
        self,
        table: Table,
        heads: Sequence[Head],
        seconds: float,
        look_ups: int = 1,
        statements: int = 1,
    ) -> None:
        """A whole look, of so many look-ups in so many statements, took so long, and found
        these."""
        was_in_force = self.in_force
        may_help = not table.policy.strict_order and all(type(head.key) is int for head in heads)
        self.in_force = (
            may_help
            and seconds > CHEAP * look_ups
            and table.dialect.gains_by_floors()
            and is_slow(table, seconds, look_ups, statements)
        )
        if not was_in_force:
            # Claims that kept no order have passed over ready jobs.
            self._by_queue.clear()
        pause = max(min(LONGEST, SHARE * seconds), LEAST_SHARE * seconds)
        self._look_at = time.monotonic() + pause
        self._may_look_at = time.monotonic() + min(LONGEST, IDLE_SHARE * seconds)
        for head in heads:
            marks = self._by_queue.get(head.queue)
            if marks is not None and not marks.holds(head.priority, head.key):
                marks.whole_at = 0.0

    def claimed(
        self,
        queue: str,
        jobs: Sequence[Any],
        limit: int,
        above: Sequence[Floor] | None,
        lost_some: bool = False,
    ) -> None:
        """A claim from these floors took these jobs, the most urgent first; ``lost_some``: it may
        have come back short though there are more."""
        lows = {job.priority: job.claim_key for job in reversed(jobs)}
        if not all(type(key) is int for key in lows.values()):
            return
        marks = self._by_queue.setdefault(queue, QueueMarks())
        if not above:
            is_seen = (len(jobs) < limit and not lost_some) or _has_seen_all(marks, lows)
            marks.whole_at = time.monotonic() + WHOLE_EVERY if is_seen else 0.0
        _keep(marks.keys, lows, MOST_PRIORITIES)
        _keep(self._by_queue, {queue: marks}, MOST_QUEUES)


def is_slow(table: Table, seconds: float, count: int, statements: int = 1) -> bool:
    """Whether so many look-ups, in so many statements, took their time in the database, not on the
    way there or waiting to run."""
    if seconds <= CHEAP * count:
        return False
    began = time.monotonic()
    rows(table.connection, "SELECT 1", [])
    return seconds > CHEAP * count + TRIPS * statements * (time.monotonic() - began)


def _has_seen_all(marks: QueueMarks, lows: dict[int, int]) -> bool:
    """Whether a claim that took all it could left nothing below the floors."""
    is_above = all(marks.holds(priority, key) for priority, key in lows.items())
    return bool(lows) and is_above and max(lows) == max(marks.keys)


def _keep(known: dict[Any, Any], new: dict[Any, Any], most: int) -> None:
    """Remember these as the latest, and forget the oldest."""
    for name, value in new.items():
        known.pop(name, None)
        known[name] = value
    for name in list(known)[:-most]:
        del known[name]
