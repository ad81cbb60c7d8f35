"""What was claimed ahead, and how much of it is still under way."""

from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from ..lifecycle.table import Table

START_WITHIN = 10.0  # seconds from the claim; later, a job is touched before it starts
KILL_WITHIN = 10.0  # seconds for a job over its time to run to be stopped
ALLOWANCE = START_WITHIN + KILL_WITHIN


@dataclass(slots=True)
class Item:
    """What a runner takes at once: one job, or a whole batch for ``run_batch``."""

    table: Table
    owner: str
    jobs: list[Any]
    claimed_at: float
    epoch: int
    ends_claim: bool = True

    def is_late(self, epoch: int, now: float) -> bool:
        """Whether others may have taken it for abandoned since it was claimed."""
        return self.epoch != epoch or now > self.claimed_at + START_WITHIN


def items_of(
    table: Table, owner: str, jobs: list[Any], claimed_at: float, epoch: int
) -> list[Item]:
    """What runners take of one claim."""
    if table.takes_batches and jobs:
        return [Item(table, owner, jobs, claimed_at, epoch)]
    return [Item(table, owner, [job], claimed_at, epoch, job is jobs[-1]) for job in jobs]


class Buffer:
    """Jobs between the claim and their runner; only the claiming thread puts and withdraws."""

    def __init__(self, threads: int) -> None:
        self._items: SimpleQueue[Item | None] = SimpleQueue()
        # What a runner took but may not start: to be given back.
        self.unstarted: SimpleQueue[Item] = SimpleQueue()
        self._put = 0
        # One counter a thread, so that none needs a lock.
        self.done = [0] * threads
        self._withdrawn = 0
        # With so few items left, the claiming thread wants to know.
        self.refill_at = 0

    def put(self, items: Iterable[Item]) -> None:
        for item in items:
            self._put += 1
            self._items.put(item)

    def get(self) -> Item | None:
        """The next item, waiting for it; None = stop."""
        return self._items.get()

    def __len__(self) -> int:
        """Items that no runner has taken."""
        return self._items.qsize()

    @property
    def under_way(self) -> int:
        """Items that were put and are neither finished nor withdrawn."""
        return self._put - sum(self.done) - self._withdrawn

    def waiting(self) -> list[Item]:
        """What no runner has taken; it stays there, in the same order."""
        items = self.withdraw()
        self.put(items)
        return items

    @property
    def ahead(self) -> int:
        """Items beyond those that the runners have in hand, or are about to take."""
        return self.under_way - len(self.done)

    def withdraw(self) -> list[Item]:
        """Take back everything that no runner has taken."""
        items = list(self._drain())
        self._withdrawn += len(items)
        return items

    def close(self, threads: int) -> None:
        for _ in range(threads):
            self._items.put(None)

    def _drain(self) -> Iterable[Item]:
        while True:
            try:
                item = self._items.get_nowait()
            except Empty:
                return
            if item is None:
                self._items.put(None)
                return
            yield item
