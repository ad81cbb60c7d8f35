"""How the queue tables are at this moment, for machines: by looks that are bounded, whatever a
table holds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from ..lifecycle.ready_queues import ready_queues
from ..lifecycle.table import table_of
from ..models import Queue, Total
from ..models.queue import is_among
from ..models.total import OTHERS
from ..monitor.report import known_queues
from ..monitor.worker_list import ListedWorker
from ..states import Status
from ..worker.served import Served
from .counts import oldest_ready
from .numbers import Count, Numbers, sum_of
from .totals import QUEUES_MAX

STATES = (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED)
READY_QUEUES_MAX = 2 * QUEUES_MAX  # of a table, of which the oldest job is looked for


@dataclass
class QueueFigures:
    """One queue of a table, or all those that have no figures of their own."""

    counts: dict[Status, Count] = field(default_factory=lambda: dict.fromkeys(STATES, Count()))
    oldest_seconds: float = 0.0
    is_paused: bool = False
    workers: int = 0


@dataclass
class TableFigures:
    label: str
    queues: dict[str, QueueFigures]
    totals: dict[str, Total]

    def whole(self, status: Status) -> Count:
        return sum_of(figures.counts[status] for figures in self.queues.values())


def look(served: Served, workers: Sequence[ListedWorker]) -> TableFigures:
    """``workers``: those that live, on the table's database."""
    table = table_of(served.model, served.using)
    numbers = Numbers(table)
    rows = Total.objects.using(served.using).filter(job_table=table.job_table)
    totals = {total.queue: total for total in rows.order_by("pk")}
    names = known_queues(table, numbers.names())
    # Those that are counted have figures first: else a counter would change its name.
    counted = [name for name in totals if name != OTHERS]
    others = [name for name in names if name not in totals]
    named = {*[*counted, *others][:QUEUES_MAX]}
    found = TableFigures(served.label, _of_queues(numbers, named), totals)
    paused = Queue.objects.db_manager(served.using).paused(table.job_table)
    for name, figures in found.queues.items():
        figures.is_paused = is_among(paused, served.model, name)
        figures.workers = sum(_works_for(served.label, name, one) for one in workers)
    ready = (name for name, one in found.queues.items() if one.counts[Status.READY].number)
    asked = dict.fromkeys([*named.intersection(ready), *ready_queues(table, READY_QUEUES_MAX)])
    for name in islice(asked, READY_QUEUES_MAX):
        figures = found.queues.setdefault(name if name in named else OTHERS, QueueFigures())
        oldest, _ = oldest_ready(table, name)
        figures.oldest_seconds = max(figures.oldest_seconds, oldest or 0.0)
    return found


def _works_for(label: str, queue: str, worker: ListedWorker) -> bool:
    """Of all that have no figures of their own, whether it works for any queue of the table."""
    takes = worker.knows(label) if queue == OTHERS else worker.takes(label, queue)
    return worker.state == "alive" and takes


def _of_queues(numbers: Numbers, named: set[str]) -> dict[str, QueueFigures]:
    """Those that have figures of their own, and all others together: what is left of the sum."""
    queues = {name: QueueFigures() for name in sorted(named)}
    for status in STATES:
        for name in named:
            queues[name].counts[status] = numbers.of(status, name)
        rest = numbers.rest(status, named)
        if rest.number or rest.is_at_least:
            queues.setdefault(OTHERS, QueueFigures()).counts[status] = rest
    return queues


def retried(alias: str) -> int:
    """How many statements of workers' were run again on this database."""
    rows = Total.objects.using(alias).filter(job_table="").values_list("retried", flat=True)
    return int(rows.first() or 0)
