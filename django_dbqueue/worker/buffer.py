"""Jobs on their way: from the claim to a runner (``Item``), and from there to the finisher."""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from ..dialects.types import Row
from ..exceptions import DBQueueError
from ..lifecycle import process_clock
from ..lifecycle.results import NONE, Results
from ..lifecycle.table import Table
from .assignment import QueueName
from .turns import Turn

START_WITHIN = 10.0  # seconds from the claim; later, a job is touched before it starts
KILL_WITHIN = 10.0  # seconds for a job over its time to run to be stopped
ALLOWANCE = START_WITHIN + KILL_WITHIN
NO_EPOCH = -1  # that a worker is never in
AHEAD_BYTES_MAX = 16 * 2**20  # fetched ahead, as the rows hold them


@dataclass(slots=True)
class Item:
    """What a runner takes at once: one job, or a whole batch for ``run_batch``."""

    table: Table
    owner: str
    jobs: list[Any]
    claimed_at: float
    epoch: int
    ends_claim: bool = True
    # Of a queue that has a rate: it may not start sooner, and goes before others then.
    turn: Turn | None = None

    @property
    def queue_name(self) -> QueueName:
        return QueueName(*self.table.place, self.jobs[0].queue)

    def give_back(self) -> None:
        """Should the answer to that be lost, and it stay in hand, it is touched before it starts:
        others may have it."""
        self.epoch = NO_EPOCH
        if self.turn is not None:
            self.turn.is_void = True


def items_of(
    table: Table, owner: str, jobs: list[Any], claimed_at: float, epoch: int
) -> list[Item]:
    """What runners take of one claim."""
    if table.takes_batches and jobs:
        return [Item(table, owner, jobs, claimed_at, epoch)]
    last = jobs[-1] if jobs else None
    return [Item(table, owner, [job], claimed_at, epoch, job is last) for job in jobs]


# Wakes a runner that is to look for what goes first.
NUDGE: Any = object()


class GivenBack(DBQueueError):
    """The job was stopped, with its worker, and is charged with nothing."""


@dataclass(slots=True)
class Outcome:
    """How a job ended."""

    table: Table
    owner: str
    job: Any
    error: Exception | None = None
    seconds: float = 0
    # Whether no others of the same claim are to come.
    ends_claim: bool = True
    expired: bool = False
    results: Results = NONE


class Buffer:
    """Jobs between the claim and their runner; only the claiming thread puts and withdraws."""

    def __init__(self, threads: int, places: int | None = None) -> None:
        """``places``: how many items are in hand at once; default: one of each thread."""
        self.items: SimpleQueue[Item | None] = SimpleQueue()
        # Those that have a turn: a heap of what goes first, the lowest rate before the others, and
        # one of what waits for it, by the monotonic clock.
        self.first: list[tuple[float, int, Item]] = []
        self._held: list[tuple[float, int, Item]] = []
        self._numbers = count()
        # What a runner took but may not start: to be given back.
        self.unstarted: deque[Item] = deque()
        self._put = 0  # and not withdrawn
        self.places = threads if places is None else places
        # One counter a thread, so that none needs a lock.
        self.done = [0] * threads
        # With so few items left, the claiming thread wants to know.
        self.refill_at = 0

    def put(self, items: Sequence[Item]) -> None:
        self._put += len(items)
        for item in items:
            if item.turn is None:
                self.items.put(item)
            else:
                heappush(self._held, (item.turn.at, next(self._numbers), item))

    def let_start(self) -> float:
        """Those whose turn it is; seconds until the next one's."""
        now = process_clock.monotonic()
        while self._held:
            try:
                at, number, item = heappop(self._held)
            except IndexError:
                break  # another thread was faster
            if at > now:
                heappush(self._held, (at, number, item))
                return at - now
            heappush(self.first, (item.turn.rank if item.turn else 0.0, number, item))
            self.items.put(NUDGE)
        return 60.0

    def get(self) -> Item | None:
        """The next item, waiting for it; None = stop."""
        while True:
            if (self._held or self.first) and (item := self._first()):
                return item
            item = self.items.get()
            if item is not NUDGE:
                return item

    def poll(self) -> Item | None:
        """The next item; None = there is none for now."""
        item = self._first()
        while item is None and self.items.qsize():
            item = self.items.get()
            item = self._first() if item is NUDGE else item
        return item

    def _first(self) -> Item | None:
        """What goes before others, if its time has come."""
        self.let_start()
        try:
            return heappop(self.first)[2]
        except IndexError:
            return None  # or another runner was faster

    def __len__(self) -> int:
        """Items that no runner has taken."""
        return self.items.qsize() + len(self.first)

    @property
    def under_way(self) -> int:
        """Items that were put and are neither finished nor withdrawn."""
        return self._put - sum(self.done)

    @property
    def ahead(self) -> int:
        """Items beyond those that the runners have in hand, or are about to take."""
        return self.under_way - len(self._held) - self.places

    @property
    def is_low(self) -> bool:
        """Whether the claiming thread wants to know."""
        return self.items.qsize() <= (self.refill_at if self.refill_at > 0 else 0)

    def withdraw(self) -> list[Item]:
        """Take back everything that no runner has taken."""
        items: list[Item] = []
        try:
            while (item := self.items.get_nowait()) is not None:
                if item is not NUDGE:
                    items.append(item)
            self.items.put(None)
        except Empty:
            pass
        while self.first:
            try:
                items.append(heappop(self.first)[2])
            except IndexError:
                break
        items += [item for *_, item in self._held]
        self._held = []
        self._put -= len(items)
        return items

    def close(self, threads: int) -> None:
        for _ in range(threads):
            self.items.put(None)


@dataclass
class Allotment:
    """What the claimers of one child have together."""

    left: float  # how many more jobs they may claim
    numbers: Iterator[int] = field(default_factory=lambda: count(1))


class JobSizes:
    """How many jobs may be fetched ahead without taking much memory, as one thread has seen."""

    def __init__(self) -> None:
        self._mean_bytes: dict[tuple[str, str], float] = {}

    def note(self, table: Table, rows: Sequence[Row]) -> None:
        """Large jobs count at once; they are forgotten claim by claim."""
        if rows:
            mean = table.size_of(rows) / len(rows)
            self._mean_bytes[table.place] = max(mean, self._mean_bytes.get(table.place, 0.0) / 2)

    def jobs_max(self, table: Table) -> int:
        """Jobs for one claim, while about as many wait; any number, as long as none was seen."""
        mean = 0.0 if table.takes_batches else self._mean_bytes.get(table.place, 0.0)
        return max(1, int(AHEAD_BYTES_MAX / 2 / mean)) if mean else sys.maxsize


def by_results(done: list[Outcome]) -> list[tuple[Results, list[Any]]]:
    """The jobs that one statement completes: those that leave the same results."""
    if not done[0].table.policy.results:
        return [(NONE, [one.job.claim_key for one in done])]
    found: dict[str, tuple[Results, list[Any]]] = {}
    for one in done:
        found.setdefault(repr(one.results), (one.results, []))[1].append(one.job.claim_key)
    return list(found.values())
