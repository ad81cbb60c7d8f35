"""Which queue to ask next: tables and queues in turn, empty ones less and less often."""

import logging
import random
import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.db.utils import Error

from ..dialects import ErrorKind
from ..dialects.types import Floor
from ..lifecycle.limiter import Limiter, base_of, limiter_of
from ..lifecycle.low_water import Head, LowWaterMarks
from ..lifecycle.many_tables import have_ready
from ..lifecycle.ready_queues import has_ready, head_of, heads, lane_heads
from ..lifecycle.table import Table
from ..models import Queue
from ..models.queue import ALL
from .assignment import QueueName
from .joint_claim import Breadth, may_claim_jointly, may_come_short
from .joint_look import JointLook
from .options import Options
from .served import Served
from .session import LOCKED_SECONDS

logger = logging.getLogger("django_dbqueue")

Found = dict[str, list[Any]]  # jobs by queue
Floors = list[Floor] | None
QUEUES_MAX = 1000  # looked at together
FIRST_PAUSE_SECONDS = 0.05
NEW_QUEUES_SECONDS = 1.0  # between looks for new queues while there is work


@dataclass
class TablePoller:
    """One served queue table: its queues with ready jobs, and when to look for more."""

    served: Served
    force: bool = False
    pause: float = FIRST_PAUSE_SECONDS
    next_look: float = 0.0
    looked_at: float = 0.0
    has_news: bool = False
    is_locked: bool = False
    # A look at many tables has found a ready job; whether it is for this child it cannot tell.
    has_some: bool = False
    alone_until: float = 0.0
    # Queues that this child leaves to others.
    left_to_others: frozenset[str] = frozenset()
    # Those of them that have a rate are asked for by the RateGate.
    limiter: Limiter | None = None
    limited: list[str] = field(default_factory=list)
    _last: str = ""
    _is_left_out: bool = False
    _whole_since: float | None = None
    queues: deque[str] = field(default_factory=deque)
    floors: LowWaterMarks = field(default_factory=LowWaterMarks)
    breadth: Breadth = field(default_factory=Breadth)

    def look(self, options: Options) -> None:
        """Find the queues that have ready jobs and are not paused."""
        table = options.table(self.served.model, self.served.using)
        self._whole_since, self.is_locked = None, False
        try:
            found = self._ready(table)
            self._is_left_out = False
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
        self._note(found, options)
        if self.has_some and not self.queues:
            # Of no use to us: else each look at this one has all others looked at, too.
            self.alone_until = time.monotonic() + LOCKED_SECONDS
        self.has_some = False

    def found_nothing(self, options: Options, since: float) -> None:
        """A look at many tables, which began then, has found no ready job in this one."""
        self._whole_since, self.is_locked = since, False
        self._note([], options)

    def _note(self, found: list[str], options: Options) -> None:
        """Queues that have ready jobs: when to look again."""
        found = self._without_limited(self._unpaused(found))
        self.has_news = False
        if self._whole_since is not None:
            # What it found a claim may not get, so that it is ready still.
            self.looked_at = 0.0 if found else self._whole_since
        self.queues = deque(found)
        self.pause = FIRST_PAUSE_SECONDS if found else min(self.pause * 1.25, options.sleep)
        wait = NEW_QUEUES_SECONDS if found else self.pause * random.uniform(0.75, 1.0)
        self.next_look = time.monotonic() + (LOCKED_SECONDS if self.is_locked else wait)

    @property
    def may_be_empty(self) -> bool:
        """Whether a look at many tables may be enough: nothing is known to be ready, for us or for
        others, there is no trouble with this one, and no floor below which that would look."""
        is_known = self.queues or time.monotonic() < self.alone_until
        return not (is_known or self._is_left_out or self.is_locked or self.floors.in_force)

    def look_for_more(self, options: Options) -> None:
        """The same while there are known queues with jobs: unless all was looked at, they stay."""
        before = list(self.queues)
        self.look(options)
        if self._whole_since is None:
            self.queues.extend(name for name in before if name not in self.queues)

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
            known = list(dict.fromkeys([*self.floors.queues, *self.served.exact]))
            ready = [name for name in known if has_ready(table, name, self.floors.of(name))]
            unpaused = self._unpaused(ready)
            if unpaused or not (self.has_news or self.floors.may_look):
                return unpaused
        return [head.queue for head in self._look_at_all(table)]

    def _look_at_all(self, table: Table) -> list[Head]:
        began = self._whole_since = time.monotonic()
        exact, wanted = self.served.exact, self.served.wanted
        found, looks = list[Head](), list[int]()  # by statement, or as many, how many look-ups
        # Where names alone are wanted, and no pattern, nothing else is looked at.
        if not wanted or exact != wanted:
            found += heads(table, QUEUES_MAX, after=self._last)
            looks.append(len(found) + 1)
        self._last = found[-1].queue if len(found) == QUEUES_MAX else ""
        if self._last or exact == wanted:
            seen = {head.queue for head in found}
            named = [head_of(table, name) for name in exact if name not in seen]
            found += [head for head in named if head]
            looks += [1] * len(named)
            for name in exact if self.served.has_lanes else ():
                lanes = lane_heads(table, name)
                found += lanes
                looks.append(len(lanes) + 1)
        statements = len(looks) if table.dialect.seeks_in_recursion else sum(looks)
        self.floors.looked(table, found, time.monotonic() - began, sum(looks), statements)
        return found

    def _unpaused(self, found: list[str]) -> list[str]:
        if not found:
            return []
        control = Queue.objects.db_manager(self.served.using)
        paused = control.paused(self.served.job_table, force=self.force)
        if ALL in paused:
            return []
        out = paused | self.left_to_others
        served = self.served
        return [
            name
            for name in found
            if served.takes(name) and not {name, base_of(served.model, name)} & out
        ]


class QueueScheduler:
    """Round robin over (queue table, queue); one leaves when a claim finds it empty."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._joint_look = JointLook()
        self.pollers = deque(TablePoller(served, options.force) for served in options.served)
        # Tables of which nothing is to be claimed for now.
        self.locked_tables: frozenset[tuple[str, str]] = frozenset()

    def look_where_due(self) -> None:
        now = time.monotonic()
        if any(now >= poller.next_look and poller.may_be_empty for poller in self.pollers):
            self._look_together(now)
        for poller in self.pollers:
            if now >= poller.next_look:
                poller.look(self.options)

    def _look_together(self, now: float) -> None:
        """At all that may be empty, so that they are due together the next time, too."""
        idle = [poller for poller in self.pollers if poller.may_be_empty]
        tables = [self.options.table(one.served.model, one.served.using) for one in idle]
        has_ready = self._joint_look.at(tables, have_ready)
        for poller in idle:
            poller.has_some = has_ready.get(poller.served.place, False)
            if has_ready.get(poller.served.place) is False:
                poller.found_nothing(self.options, now)

    def next(self) -> tuple[TablePoller, str] | None:
        """The queue whose turn it is, or None when all are empty as far as is known."""
        self.look_where_due()
        for _ in range(len(self.pollers)):
            poller = self.pollers[0]
            self.pollers.rotate(-1)
            if poller.queues and poller.served.place not in self.locked_tables:
                name = poller.queues[0]
                poller.queues.rotate(-1)
                return poller, name
        return None

    def may_start(self, poller: TablePoller, queue: str) -> bool:
        """Whether it is the turn of a queue that has a rate, as far as its tokens are there."""
        return True

    def asked(self, poller: TablePoller, queue: str, table: Table) -> list[str]:
        """A queue, and those that come next and may be claimed from in the same statement."""
        most = poller.breadth.queues - 1
        if not most or poller.floors.in_force or poller.limiter or not may_claim_jointly(table):
            return [queue]
        # Text that is no UTF-8 takes a statement of its own.
        like = (
            name
            for name in poller.queues
            if type(name) is type(queue) is str and self.is_like(poller, name, queue)
        )
        return [queue, *islice(like, most)]

    def is_like(self, poller: TablePoller, name: str, queue: str) -> bool:
        """Whether no order tells two queues apart."""
        return name != queue

    def note(
        self, poller: TablePoller, table: Table, found: Found, limit: int, floors: Floors
    ) -> list[Any]:
        """What was claimed by one claim, by queue; as one list."""
        lost_some = table.dialect.lost_some or may_come_short(table)
        for queue, jobs in found.items():
            # Each queue gets what those before it have left.
            poller.floors.claimed(queue, jobs, limit, floors, lost_some)
            limit -= len(jobs)
            self.claimed(base_of(poller.served.model, queue), len(jobs))
        return [job for jobs in found.values() for job in jobs]

    def claimed(self, queue: str, count: int) -> None:
        """So many jobs were claimed from a queue."""

    def empty(self, poller: TablePoller, *queues: str) -> None:
        """A claim came back short: there is nothing left in these queues for now."""
        for queue in queues:
            of = poller.limited if queue in poller.limited else poller.queues
            of.remove(queue)
        if not poller.queues:
            poller.pause = FIRST_PAUSE_SECONDS
            poller.next_look = 0.0

    def leave(self, others: Collection[QueueName]) -> None:
        """These queues to others, and no other ones."""
        for poller in self.pollers:
            names = [one.queue for one in others if (one.using, one.table) == poller.served.place]
            poller.left_to_others = frozenset(names)
            poller.queues = deque(name for name in poller.queues if name not in names)
        self.look_now()

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

    @property
    def knows_some(self) -> bool:
        """Whether a queue is known that may have ready jobs."""
        return any(poller.queues for poller in self.pollers)

    def all_looked_at(self, since: float) -> bool:
        """Whether every table was looked at since then."""
        return all(poller.looked_at >= since for poller in self.pollers)

    def wait(self) -> float:
        """Seconds until a table wants to be looked at."""
        soonest = min(poller.next_look for poller in self.pollers)
        return max(0.0, soonest - time.monotonic())
