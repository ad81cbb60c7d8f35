"""Claimed jobs that may have killed a worker: no ordinary child runs them."""

import time
from collections.abc import Callable, Iterator

from django.db.utils import Error

from ..lifecycle import suspects
from .buffer import Item
from .reconcile import ails_all
from .shared_memory import Role, SharedMemory

SUSPECTS_MAX = 500  # that wait for a sacrificial child; more are put off
RECHECK_SECONDS = 0.2  # between looks whether one was taken over


class WaitingSuspects:
    """They wait for a sacrificial child to take them over, and are given back if none does."""

    def __init__(
        self, shared: SharedMemory, release: Callable[[list[Item], float], int], hold_seconds: float
    ) -> None:
        self.shared = shared
        self.release = release
        self.hold_seconds = hold_seconds
        self._items: list[Item] = []
        self._recheck_at = 0.0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def add(self, items: list[Item]) -> None:
        room = max(0, SUSPECTS_MAX - len(self._items))
        self._items += items
        for item in items[:room]:
            alone = suspects.runs_alone(item.jobs[0])
            self.shared.hand_over(Role.ALONE if alone else Role.SHARED)
        if excess := items[room:]:
            self.release(excess, self.hold_seconds)
            del self._items[-len(excess) :]

    def look(self) -> None:
        """Forget those that were taken over; what has waited for too long is given back."""
        if self._items and time.monotonic() >= self._recheck_at:
            self._look(self.hold_seconds)

    def give_back(self) -> None:
        """All that nobody has taken over."""
        if self._items:
            self._look(0)

    def _look(self, hold_seconds: float) -> None:
        for owner in {item.owner for item in self._items}:
            others = [item for item in self._items if item.owner != owner]
            mine = {item.jobs[0].claim_key: item for item in self._items if item.owner == owner}
            first = next(iter(mine.values()))
            table, is_over = first.table, time.monotonic() - first.claimed_at >= hold_seconds
            try:
                held = suspects.still_held(table.on_this_thread(), owner, list(mine))
            except Error as error:
                if ails_all(table, error):
                    raise
                held, is_over = set(mine), True  # its table is gone
            self.shared.taken += len(mine) - len(held)
            waiting = [mine[key] for key in sorted(held)]
            self._items = [*others, *waiting]
            if waiting and is_over:
                self.release(waiting, 0)
                self._items = others
        self._recheck_at = time.monotonic() + RECHECK_SECONDS
