"""What ``status`` and ``top`` look at, again and again."""

import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from types import FrameType

from django.db import connections

from ..monitor.failures import Failures
from ..monitor.glance import failures_of
from ..monitor.overview import Overview, overview
from ..worker.served import Served
from ..worker.signalling import WakeupPipe, own_handlers
from .choosing import without_twins


def look_at(tables: Sequence[Served]) -> tuple[Overview, Failures]:
    """The queues that are meant, and no others of their tables; what failed in them."""
    close_broken()
    found = overview(_by_place(tables))
    found.queues = [
        queue
        for queue in found.queues
        if any(
            one.place == (queue.database, queue.table) and one.means(queue.queue) for one in tables
        )
    ]
    # Of those that are not shown nobody knows which are meant, but where all of them are.
    whole = {one.place for one in tables if one.wanted == () and not one.left_out}
    found.others = [one for one in found.others if (one.database, one.table) in whole]
    return found, failures_of(without_twins(tables), found)


def _by_place(tables: Sequence[Served]) -> list[Served]:
    """Each table once, with all of its queues that are named: of very many these are shown."""
    named: dict[tuple[str, str], list[Served]] = defaultdict(list)
    for one in tables:
        named[one.place].append(one)
    return [
        replace(some[0], queue=None, among=tuple(name for one in some for name in one.wanted))
        for some in named.values()
    ]


def close_broken() -> None:
    """Where a server has gone away meanwhile, what follows connects once more."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()


class CtrlC:
    """Raises ``KeyboardInterrupt``, and remembers that it came: the exception alone may be lost in
    a callback of a driver's, as SQLite's functions in Python are."""

    def __init__(self) -> None:
        self.has_come = False
        self._wakeup = WakeupPipe()
        self.wait, self.close = self._wakeup.wait, self._wakeup.close

    def note(self, _number: int, _frame: FrameType | None) -> None:
        self.has_come = True
        self._wakeup.set()
        raise KeyboardInterrupt


@contextmanager
def until_ctrl_c() -> Iterator[CtrlC]:
    """Ctrl-C ends what is done meanwhile, where it asks before each look whether it has come."""
    with closing(CtrlC()) as ctrl_c, own_handlers():
        signal.signal(signal.SIGINT, ctrl_c.note)
        with suppress(KeyboardInterrupt):
            yield ctrl_c
