"""What runs now, and how much of its time to run is used up."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError

from ..conf.bounds import BIGINT_MAX
from ..lifecycle.table import Table
from .worker_list import ListedWorker

LOOKED_UP_MAX = 500  # jobs of a table whose queues are looked up


@dataclass(frozen=True)
class Slot:
    """A job that a worker runs; ``queue`` is None where its row was not found, or not looked for.
    ``seconds`` since it was started; ``limit`` those after which it is over its time to run."""

    worker: ListedWorker
    table: str
    key: str
    seconds: float | None
    limit: float | None
    queue: str | None = None

    @property
    def job(self) -> str:
        return f"{self.table} {self.key}"

    @property
    def share(self) -> float:
        """Of its time to run, that is used up; 0 where that is not known."""
        return (self.seconds or 0.0) / self.limit if self.limit else 0.0


def slots(workers: Sequence[ListedWorker]) -> list[Slot]:
    """What the living ones run; first what has used up most of its time to run."""
    found = [
        Slot(worker, *one.job.partition(" ")[::2], one.seconds, one.limit)
        for worker in workers
        if worker.lives
        for one in worker.jobs
    ]
    return sorted(found, key=lambda slot: (-slot.share, -(slot.seconds or 0.0), slot.job))


def with_queues(slots_of: Sequence[Slot], tables: Sequence[Table]) -> list[Slot]:
    """The same with their queues: one statement for each table that has some."""
    by_table: dict[tuple[str, str], list[Slot]] = defaultdict(list)
    for slot in slots_of:
        by_table[slot.table, slot.worker.database].append(slot)
    known: dict[tuple[str, str, str], str] = {}
    for table in tables:
        place = table.label, table.connection.alias
        found = dict(_queues(table, [slot.key for slot in by_table.get(place, [])[:LOOKED_UP_MAX]]))
        known |= {(*place, key): queue for key, queue in found.items()}
    return [
        replace(slot, queue=known.get((slot.table, slot.worker.database, slot.key)))
        for slot in slots_of
    ]


def _queues(table: Table, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    field: Any = table.model._meta.pk
    wanted = {}
    for key in keys:
        try:
            value = field.to_python(key)
        except ValidationError:  # a hand wrote it into the worker's row
            continue
        if not isinstance(value, int) or abs(value) <= BIGINT_MAX:
            wanted[value] = key
    if wanted:
        jobs = table.model._base_manager.using(table.connection.alias).filter(pk__in=[*wanted])
        for key, queue in jobs.values_list("pk", "queue"):
            if key in wanted:
                yield wanted[key], str(queue)
