"""Counting the jobs of each queue and state in the background: by one process at a time for each
table, a step at a time, and seldom enough to cost next to nothing."""

import random
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import F, FloatField
from django.db.models.expressions import RawSQL
from django.db.utils import Error

from ..dialects import dialect_of
from ..fields import DbNow, check_name
from ..lifecycle.execute import retry, try_once, try_once_in_transaction
from ..lifecycle.table import Table
from ..models import QueueCount, TableCount
from ..models.count import QUEUES_MAX
from ..models.total import OTHERS
from ..states import Status
from ..worker import background
from . import walks
from .walks import Pace

OPEN, DONE = "open", "done"
# What is counted together, and how often: on PostgreSQL and SQLite no index holds what is done.
PARTS = {
    OPEN: (Status.READY, Status.CLAIMED, Status.DELAYED, Status.BURIED),
    DONE: (Status.DONE,),
}
PAUSE_MIN = {OPEN: 10.0, DONE: 60.0}  # seconds between two counts
PAUSES = {OPEN: 20, DONE: 100}  # and at the least so many times what a count took
# Up to so many jobs in a state are counted by those who look; then this pause is enough.
FEW, PAUSE_OF_FEW = 1_000, 30.0
# In a project of many tables it is so much longer; most of them have nothing to count.
TABLES, PAUSE_OF_FEW_MAX = 10, 300.0
LOOK_SECONDS = 5.0  # between two looks whether something is to be counted
TOUCH_SECONDS = 10.0  # between two signs of life of one who counts
DEAD_AFTER = 60.0  # seconds without one, after which another begins again
CLOCK_SLACK = 1.0  # seconds that a moment may seem to be ahead
UNFIT_SECONDS = 60.0  # until another look where our tables are missing
ENDED = object()


def subscribe() -> None:
    """From here on every agent counts."""
    if JobCounter not in background.TABLE_WRITERS:
        background.TABLE_WRITERS.append(JobCounter)


class JobCounter:
    """A ``Writer`` of ``worker/background.py``: counts the jobs of these tables, a step a call."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = {table.job_table: table for table in tables}
        self.alias = tables[0].connection.alias if tables else ""
        # Not all workers of a host at once.
        self._look_at = time.monotonic() + random.uniform(1, LOOK_SECONDS)
        self._steps: Iterator[None] | None = None

    def due_in(self) -> float:
        return 0.0 if self._steps else max(0.0, self._look_at - time.monotonic())

    def write(self) -> None:
        """``Error`` where a step goes wrong: then the count is left to be begun again."""
        self._look_at = time.monotonic() + LOOK_SECONDS
        steps, self._steps = self._steps or self._begun(), None
        if steps is None:
            return
        if next(steps, ENDED) is ENDED:
            self._look_at = time.monotonic()  # another part may be due as well
        else:
            self._steps = steps

    def _begun(self) -> Iterator[None] | None:
        if not self.tables:
            return None
        try:
            found = due(self.alias, self.tables)
        except Error:
            # Where they are not migrated here, they are asked for seldom.
            self._look_at = time.monotonic() + UNFIT_SECONDS
            raise
        for row in found:
            version = begin(self.alias, row)
            if version is not None:
                return counted(self.tables[row.job_table], row, version)
        return None


def due(alias: str, job_tables: Collection[str]) -> list[TableCount]:
    """The parts of tables that are to be counted now, the one that waits for longest first."""
    rows = TableCount.objects.using(alias).filter(job_table__in=[*job_tables])
    found = list(rows.annotate(idle=seconds_since(alias, "touched_at")))
    # MariaDB finds those of a name in other letters, too: of a table that was renamed.
    renamed = [row for row in found if row.job_table not in job_tables]
    if renamed:
        retry(connections[alias], rows.filter(pk__in=[row.pk for row in renamed]).delete)
        found = [row for row in found if row not in renamed]
    known = {(row.job_table, row.part) for row in found}
    fresh = [
        TableCount(job_table=name, part=part)
        for name in job_tables
        for part in PARTS
        if (name, part) not in known
    ]
    if fresh:
        create = partial(TableCount.objects.using(alias).bulk_create, ignore_conflicts=True)
        retry(connections[alias], partial(create, fresh))  # from the next look on
    waits: dict[TableCount, float] = {}
    for row in found:
        idle = age_of(vars(row)["idle"])
        late = float("inf") if idle is None else idle - pause_after(row, len(job_tables))
        if late >= 0:
            waits[row] = late
    return sorted(waits, key=waits.__getitem__, reverse=True)


def seconds_since(alias: str, column: str) -> RawSQL:
    """By the database's clock, since an instant in a row."""
    dialect = dialect_of(connections[alias])
    sql = f"-{dialect.seconds_until(column)}"  # of columns of ours
    return RawSQL(sql, [], output_field=FloatField())  # noqa: S611


def age_of(seconds: Any) -> float | None:
    """None where nobody knows: a clock that was set back says nothing of what was before."""
    if seconds is None or seconds < -CLOCK_SLACK:
        return None
    return max(0.0, float(seconds))


def pause_after(row: TableCount, tables: int) -> float:
    """Seconds since somebody last wrote here, after which it is to be counted, as one of so many
    tables."""
    if row.is_counting:
        return DEAD_AFTER
    least = PAUSE_MIN[row.part]
    if row.largest <= FEW:
        least = max(least, min(PAUSE_OF_FEW_MAX, PAUSE_OF_FEW * max(1.0, tables / TABLES)))
    return max(least, PAUSES[row.part] * row.seconds)


def begin(alias: str, row: TableCount) -> int | None:
    """Take a part to count it: the version from here on; None where another was faster."""
    seen = TableCount.objects.using(alias).filter(pk=row.pk, version=row.version)
    taken = {"version": row.version + 1, "is_counting": True}
    update = partial(seen.update, **taken, began_at=DbNow(), touched_at=DbNow())
    return row.version + 1 if try_once(connections[alias], update) else None


def counted(table: Table, row: TableCount, version: int) -> Iterator[None]:
    """The steps of a count; it ends early where another has begun again meanwhile."""
    alias = table.connection.alias
    mine = TableCount.objects.using(alias).filter(pk=row.pk, version=version)
    pace, found = Pace(), dict[Status, Counter[str]]()
    touched = time.monotonic()
    for status in PARTS[row.part]:
        found[status] = Counter()
        for _ in walks.count(table, status, pace, found[status]):
            yield
            if time.monotonic() > touched + TOUCH_SECONDS:
                touched = time.monotonic()
                if try_once(connections[alias], partial(mine.update, touched_at=DbNow())) == 0:
                    return
    write = partial(_write, table, mine, version, found, pace.seconds)
    while try_once_in_transaction(connections[alias], write) is None:
        yield


def _write(
    table: Table, mine: Any, version: int, found: dict[Status, Counter[str]], seconds: float
) -> bool:
    """Replace what was counted before; nothing where the count is no longer ours."""
    largest = max(sum(counted.values()) for counted in found.values())
    ended = {"version": version + 1, "is_counting": False, "touched_at": DbNow()}
    if not mine.update(**ended, counted_at=F("began_at"), seconds=seconds, largest=largest):
        return False
    rows = QueueCount.objects.using(mine.db).filter(job_table=table.job_table)
    known = list(rows.filter(status__in=[*found]))
    for status, counted in found.items():
        new = _bounded(counted)
        old = [row for row in known if row.status == status]
        # Of a table that was renamed, see ``due``, not even what is the same.
        here = [row for row in old if row.job_table == table.job_table]
        same = {row.queue for row in here if new.get(row.queue) == row.jobs}
        stale = [row.pk for row in old if row.queue not in same]
        for start in range(0, len(stale), QUEUES_MAX // 2):
            rows.filter(pk__in=stale[start : start + QUEUES_MAX // 2]).delete()
        rows.bulk_create(
            QueueCount(job_table=table.job_table, queue=queue, status=status, jobs=jobs)
            for queue, jobs in sorted(new.items())
            if queue not in same
        )
    return True


def _bounded(counted: Counter[str]) -> dict[str, int]:
    """Those with most jobs; what the others have, and those whose names a hand wrote, together."""
    named: dict[str, int] = {}
    for queue, jobs in counted.most_common():
        is_told = len(named) < QUEUES_MAX and queue != OTHERS and _is_name(queue)
        if is_told:
            named[queue] = jobs
    rest = sum(counted.values()) - sum(named.values())
    return {**named, OTHERS: rest} if rest else named


def _is_name(queue: str) -> bool:
    try:
        check_name(queue, "queue")
    except ValidationError:
        return False
    return True
