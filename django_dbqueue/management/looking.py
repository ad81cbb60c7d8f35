"""What ``status`` and ``top`` look at, again and again."""

from collections.abc import Sequence

from django.db import connections

from ..monitor.failures import Failures
from ..monitor.glance import failures_of
from ..monitor.overview import Overview, overview
from ..worker.served import Served


def look_at(tables: Sequence[Served]) -> tuple[Overview, Failures]:
    """The queues that are meant, and no others of their tables; what failed in them."""
    close_broken()
    found = overview(list({one.place: one for one in tables}.values()))
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
    return found, failures_of(tables, found)


def close_broken() -> None:
    """Where a server has gone away meanwhile, what follows connects once more."""
    for connection in connections.all(initialized_only=True):
        if connection.errors_occurred:
            connection.close_if_unusable_or_obsolete()
