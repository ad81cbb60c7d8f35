"""What time it is by a database's own clock, as a value: by an expression no index is searched; and
which jobs were to be seen at such a time."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet

from ..dialects import dialect_of
from ..fields import aware
from ..lifecycle.errors import claimed_at
from ..lifecycle.execute import rows
from ..models import Job
from ..states import Status

# Of what happened to a job after a moment: it was not as it is when it was shown then.
HAPPENED = ("dequeued_time", "failed_at")


def now_of(alias: str) -> datetime:
    dialect = dialect_of(connections[alias])
    sql = f"SELECT {dialect.readable_expression(dialect.now)}"
    [(moment,)] = rows(connections[alias], sql, [])
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return found.replace(tzinfo=UTC)


def as_of(rows: QuerySet[Any], until: datetime) -> QuerySet[Any]:
    """Without what came, was claimed or failed later: a job that ran meanwhile is another one to
    the person who saw it."""
    for name in HAPPENED:
        rows = rows.filter(Q(**{f"{name}__isnull": True}) | Q(**{f"{name}__lte": until}))
    return _archived(rows, until).filter(created_at__lte=until)


def _archived(rows: QuerySet[Any], until: datetime) -> QuerySet[Any]:
    """Of an archive without what came into it later. What never finished has ended as it came, and
    what is done has come when its time in the queue table was over."""
    if issubclass(rows.model, Job):
        return rows
    in_time = Q(retry_at__isnull=True) | Q(retry_at__lte=until) | ~Q(status=Status.DONE)
    return rows.filter(Q(finished_at__isnull=True) | Q(finished_at__lte=until)).filter(in_time)


@dataclass(frozen=True)
class Beginning:
    """The moment at which something began, by a database's own clock; ``ticks`` are this
    process's then, None = nobody knows."""

    at: datetime
    ticks: float | None = field(default_factory=time.monotonic)

    def is_before(self, job: Any, names: Iterable[str]) -> bool:
        """Whether one of these columns of a job says that it happened since."""
        return any(self.precedes(getattr(job, name)) for name in names)

    def is_before_failure(self, errors: Any) -> bool:
        """Whether the attempt that failed last was claimed since: of a job that is tried again no
        other column says so."""
        return self.precedes(claimed_at(errors))

    def precedes(self, moment: Any) -> bool:
        """What seems to be later than now is from before a clock was set back."""
        if not isinstance(moment, datetime) or not self.at < aware(moment):
            return False
        if self.ticks is None:
            return True
        return aware(moment) <= self.at + timedelta(seconds=time.monotonic() - self.ticks + 1)


def beginning_of(alias: str) -> Beginning:
    return Beginning(now_of(alias))
