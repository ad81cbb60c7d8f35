"""How the queue tables are at this moment, for machines: by looks that are bounded, whatever a
table holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..lifecycle.backlog import count_ready
from ..lifecycle.table import Table, table_of
from ..models import Queue, Total
from ..models.queue import is_among
from ..models.total import OTHERS
from ..monitor.report import TOGETHER, known_queues
from ..monitor.worker_list import ListedWorker
from ..states import Status
from ..worker.served import Served
from .counts import count_by_queue, oldest_ready
from .totals import QUEUES_MAX

STATES: tuple[Status, ...] = (Status.READY, *TOGETHER)
COUNTED_MAX = 10_000  # jobs of a table in one state
OF_ONE_QUEUE = 1_000  # ready jobs that are counted at least, where all queues hold more than that


@dataclass
class QueueFigures:
    """One queue of a table, or all those that have no figures of their own."""

    counts: dict[Status, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    oldest_seconds: float = 0.0
    is_paused: bool = False
    workers: int = 0


@dataclass
class TableFigures:
    """``capped``: the states in which there are more jobs than were counted."""

    label: str
    queues: dict[str, QueueFigures]
    capped: set[Status]
    totals: dict[str, Total]


def look(served: Served, workers: Sequence[ListedWorker]) -> TableFigures:
    """``workers``: those that live, on the table's database."""
    table = table_of(served.model, served.using)
    counts = {status: count_by_queue(table, status, COUNTED_MAX) for status in TOGETHER}
    rows = Total.objects.using(served.using).filter(job_table=table.job_table)
    totals = {total.queue: total for total in rows.order_by("pk")}
    names = known_queues(table, counts)
    # Those that are counted have figures first: else a counter would change its name.
    counted = [name for name in totals if name != OTHERS]
    others = [name for name in names if name not in totals]
    named = {*[*counted, *others][:QUEUES_MAX]}
    counts[Status.READY], is_capped = _count_ready(table, names)
    capped = {status for status in TOGETHER if sum(counts[status].values()) > COUNTED_MAX}
    capped |= {Status.READY} if is_capped else set()
    queues = _add_up(counts, named)
    paused = Queue.objects.db_manager(served.using).paused(table.job_table)
    for name, figures in queues.items():
        figures.is_paused = is_among(paused, served.model, name)
        figures.workers = sum(w.state == "alive" and w.takes(served.label, name) for w in workers)
    for name in counts[Status.READY]:
        figures = queues[name if name in named else OTHERS]
        oldest, _ = oldest_ready(table, name)
        figures.oldest_seconds = max(figures.oldest_seconds, oldest or 0.0)
    return TableFigures(served.label, queues, capped, totals)


def _count_ready(table: Table, names: Sequence[str]) -> tuple[dict[str, int], bool]:
    """By queue, where there is any; and whether there are more."""
    together = count_by_queue(table, Status.READY, COUNTED_MAX)
    if sum(together.values()) <= COUNTED_MAX:
        return together, False
    looked_at = names[: 2 * QUEUES_MAX]
    most = max(OF_ONE_QUEUE, COUNTED_MAX // max(1, len(looked_at)))
    found = {name: count_ready(table, name, most) for name in looked_at}
    return {name: min(n, most) for name, n in found.items() if n}, True


def _add_up(counts: Mapping[Status, Mapping[str, int]], named: set[str]) -> dict[str, QueueFigures]:
    queues = {name: QueueFigures() for name in sorted(named)}
    for status, by_queue in counts.items():
        for name, count in by_queue.items():
            place = name if name in named else OTHERS
            queues.setdefault(place, QueueFigures()).counts[status] += count
    return queues


def retried(alias: str) -> int:
    """How many statements of workers' were run again on this database."""
    rows = Total.objects.using(alias).filter(job_table="").values_list("retried", flat=True)
    return int(rows.first() or 0)
