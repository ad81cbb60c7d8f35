"""Which queue to ask next: tables and queues in turn, empty ones less and less often."""

import logging
import random
import time
from collections import deque
from dataclasses import dataclass, field

from django.db.utils import Error

from ..dialects import ErrorKind
from ..lifecycle.limiter import Limiter, base_of, limiter_of
from ..lifecycle.low_water import LowWaterMarks
from ..lifecycle.ready_queues import has_ready, head_of, heads, lane_heads
from ..lifecycle.table import Table
from ..models import Queue
from .options import Options
from .served import Served
from .session import LOCKED_SECONDS

logger = logging.getLogger("django_dbqueue")

QUEUES_MAX = 1000  # looked at together
FIRST_PAUSE_SECONDS = 0.05
NEW_QUEUES_SECONDS = 1.0  # between looks for new queues while there is work


@dataclass
class TablePoller:
    """One served queue table: its queues with ready jobs, and when to look for more."""

    served: Served
    pause: float = FIRST_PAUSE_SECONDS
    next_look: float = 0.0
    looked_at: float = 0.0
    has_news: bool = False
    is_locked: bool = False
    # Those of them that have a rate are asked for by the RateGate.
    limiter: Limiter | None = None
    limited: list[str] = field(default_factory=list)
    _last: str = ""
    _is_left_out: bool = False
    _whole_since: float | None = None
    queues: deque[str] = field(default_factory=deque)
    floors: LowWaterMarks = field(default_factory=LowWaterMarks)

    def look(self, options: Options) -> None:
        """Find the queues that have ready jobs and are not paused."""
        table = options.table(self.served.model, self.served.using)
        self._whole_since, self.is_locked = None, False
        try:
            found = self._ready(table)
        except Error as error:
            # One of its own (its migration was undone, somebody has locked it, a name cannot be
            # read) is no other table's business.
            kind = table.dialect.error_kind(error)
            self.is_locked = kind is ErrorKind.AGAIN
            if kind and not self.is_locked:
                raise
            found, self._whole_since = [], time.monotonic()
            level = logging.DEBUG if self._is_left_out else logging.WARNING
            self._is_left_out = True
            logger.log(level, "%s is left out: %s", self.served, str(error).strip())
        found = self._without_limited(self._unpaused(found))
        self.has_news = False
        if self._whole_since is not None:
            # What it found a claim may not get, so that it is ready still.
            self.looked_at = 0.0 if found else self._whole_since
        self.queues = deque(found)
        self.pause = FIRST_PAUSE_SECONDS if found else min(self.pause * 1.25, options.sleep)
        wait = NEW_QUEUES_SECONDS if found else self.pause * random.uniform(0.75, 1.0)
        self.next_look = time.monotonic() + (LOCKED_SECONDS if self.is_locked else wait)

    def _without_limited(self, found: list[str]) -> list[str]:
        self.limiter, self.limited = limiter_of(self.served.model), []
        if self.limiter is None:
            return found
        limited = {name for name in found if self.limiter.is_limited(name, self.served.using)}
        self.limited = [name for name in found if name in limited]
        return [name for name in found if name not in limited]

    def _ready(self, table: Table) -> list[str]:
        """Queues with ready jobs. Where a whole look is slow, those that are known, from their
        floors on; where there are very many queues, the next ones each time."""
        if not self.floors.must_look:
            known = self.floors.queues
            ready = [name for name in known if has_ready(table, name, self.floors.of(name))]
            unpaused = self._unpaused(ready)
            if unpaused or not (self.has_news or self.floors.may_look):
                return unpaused
        began = self._whole_since = time.monotonic()
        if self.served.queue is not None:
            head = head_of(table, self.served.queue)
            found = [head] if head else []
            found += lane_heads(table, self.served.queue) if self.served.has_lanes else []
        else:
            found = heads(table, QUEUES_MAX, after=self._last)
            self._last = found[-1].queue if len(found) == QUEUES_MAX else ""
        self.floors.looked(table, found, time.monotonic() - began)
        return [head.queue for head in found]

    def _unpaused(self, found: list[str]) -> list[str]:
        if not found:
            return []
        paused = Queue.objects.db_manager(self.served.using).paused(self.served.job_table)
        served = self.served
        return [
            name
            for name in found
            if served.takes(name) and not {name, base_of(served.model, name)} & paused
        ]


class QueueScheduler:
    """Round robin over (queue table, queue); one leaves when a claim finds it empty."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pollers = deque(TablePoller(served) for served in options.served)
        # Tables of which nothing is to be claimed for now.
        self.locked_tables: frozenset[tuple[str, str]] = frozenset()

    def next(self) -> tuple[TablePoller, str] | None:
        """The queue whose turn it is, or None when all are empty as far as is known."""
        now = time.monotonic()
        for poller in self.pollers:
            if now >= poller.next_look:
                poller.look(self.options)
        for _ in range(len(self.pollers)):
            poller = self.pollers[0]
            self.pollers.rotate(-1)
            if poller.queues and poller.served.place not in self.locked_tables:
                name = poller.queues[0]
                poller.queues.rotate(-1)
                return poller, name
        return None

    def empty(self, poller: TablePoller, queue: str) -> None:
        """A claim came back short: there is nothing left in this queue for now."""
        if queue in poller.limited:
            poller.limited.remove(queue)
        else:
            poller.queues.remove(queue)
        if not poller.queues:
            poller.pause = FIRST_PAUSE_SECONDS
            poller.next_look = 0.0

    def forget_low_water_marks(self) -> None:
        """Something failed: what was ready may be so no longer, and the other way round."""
        for poller in self.pollers:
            poller.floors = LowWaterMarks()

    def look_now(self) -> None:
        """There is news, of whatever kind."""
        for poller in self.pollers:
            if not poller.is_locked:
                poller.next_look = 0.0
                poller.has_news = True

    def look_again(self) -> None:
        """Now, and soon after: there was work."""
        self.look_now()
        for poller in self.pollers:
            poller.pause = FIRST_PAUSE_SECONDS

    def all_looked_at(self, since: float) -> bool:
        """Whether every table was looked at since then."""
        return all(poller.looked_at >= since for poller in self.pollers)

    def wait(self) -> float:
        """Seconds until a table wants to be looked at."""
        soonest = min(poller.next_look for poller in self.pollers)
        return max(0.0, soonest - time.monotonic())
