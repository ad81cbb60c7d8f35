"""Which queue to ask next, where queues have an order, or weights."""

import time
from collections import defaultdict
from typing import Any

from ..lifecycle.limiter import base_of
from ..lifecycle.table import Table
from .options import Options
from .queue_poller import Floors, Found, QueueScheduler, TablePoller

LOOK_SHARE = 100.0  # a look for what comes before follows after so many times as long as the last
LOOK_SECONDS_MAX = 1.0  # but no later
FAILED_SECONDS = 1.0  # until another look at a table from which a claim has failed

Turn = tuple[TablePoller, str]


class OrderedScheduler(QueueScheduler):
    """Looks, before a claim, whether a queue that would come before it has got jobs meanwhile; that
    takes at most a hundredth of the time."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.order = options.queue_order
        self._look_before_at = 0.0
        # The table from which a claim is under way.
        self._asked: TablePoller | None = None

    def next(self) -> Turn | None:
        self.look_where_due()
        by_rank = self._ready_by_rank()
        if by_rank and self._may_miss(by_rank) and time.monotonic() >= self._look_before_at:
            self._look_at_all()
            by_rank = self._ready_by_rank()
        if not by_rank:
            return None
        poller, name = by_rank[self._choose(by_rank)][0]
        # In turn among those of one rank: of one table, and of all.
        poller.queues.remove(name)
        poller.queues.append(name)
        self.pollers.remove(poller)
        self.pollers.append(poller)
        self._asked = poller
        return poller, name

    def note(
        self, poller: TablePoller, table: Table, found: Found, limit: int, floors: Floors
    ) -> list[Any]:
        self._asked = None
        return super().note(poller, table, found, limit, floors)

    def forget_low_water_marks(self) -> None:
        """Where it was a claim that failed, perhaps for a fault of its table alone, the others have
        their turn: else what comes first would keep them waiting for ever."""
        super().forget_low_water_marks()
        if self._asked is not None:
            self._asked.queues.clear()
            self._asked.is_locked = True  # until that look, whatever news there are
            self._asked.next_look = time.monotonic() + FAILED_SECONDS
            self._asked = None

    def _ready_by_rank(self) -> dict[int, list[Turn]]:
        found: dict[int, list[Turn]] = defaultdict(list)
        for poller in self.pollers:
            if poller.served.place not in self.locked_tables:
                for name in poller.queues:
                    rank = self.order.rank(base_of(poller.served.model, name))
                    found[rank].append((poller, name))
        return found

    def _look_at_all(self) -> None:
        began = time.monotonic()
        for poller in self.pollers:
            if not poller.is_locked:
                poller.look_for_more(self.options)
        now = time.monotonic()
        self._look_before_at = now + min(LOOK_SECONDS_MAX, LOOK_SHARE * (now - began))

    def is_like(self, poller: TablePoller, name: str, queue: str) -> bool:
        ranks = {self.order.rank(base_of(poller.served.model, one)) for one in (name, queue)}
        return len(ranks) == 1 and super().is_like(poller, name, queue)

    def _may_miss(self, by_rank: dict[int, list[Turn]]) -> bool:
        """Whether a queue of which we know no jobs could be the next one."""
        raise NotImplementedError

    def _choose(self, by_rank: dict[int, list[Turn]]) -> int:
        raise NotImplementedError


class StrictScheduler(OrderedScheduler):
    """Each claim begins at the first queue of the order that has ready jobs."""

    def may_start(self, poller: TablePoller, queue: str) -> bool:
        rank = self.order.rank(base_of(poller.served.model, queue))
        return rank <= min(self._ready_by_rank(), default=rank)

    def _may_miss(self, by_rank: dict[int, list[Turn]]) -> bool:
        return min(by_rank) > 0

    def _choose(self, by_rank: dict[int, list[Turn]]) -> int:
        return min(by_rank)


class WeightedScheduler(OrderedScheduler):
    """Queues with ready jobs get shares of the claimed jobs by their weights.

    Each has a clock that goes on by 1 / weight with each of its jobs, and the one that is furthest
    behind is next. One that had nothing gets no more later for it.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._clocks = [0.0] * len(self.order.weights)
        self._now = 0.0
        self._had_jobs: set[int] = set()

    def _may_miss(self, by_rank: dict[int, list[Turn]]) -> bool:
        return len(by_rank) < len(self._clocks)

    def _choose(self, by_rank: dict[int, list[Turn]]) -> int:
        for rank in by_rank.keys() - self._had_jobs:
            self._clocks[rank] = max(self._clocks[rank], self._now)
        self._had_jobs = set(by_rank)
        chosen = min(by_rank, key=lambda rank: (self._clocks[rank], rank))
        self._now = self._clocks[chosen]
        return chosen

    def claimed(self, queue: str, count: int) -> None:
        rank = self.order.rank(queue)
        self._clocks[rank] += count / self.order.weights[rank]


def scheduler_of(options: Options) -> QueueScheduler:
    if not options.queue_order:
        return QueueScheduler(options)
    return WeightedScheduler(options) if options.queue_order.weights else StrictScheduler(options)
