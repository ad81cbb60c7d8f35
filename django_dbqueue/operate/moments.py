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
from ..lifecycle.execute import rows

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
    return rows.filter(created_at__lte=until)


@dataclass(frozen=True)
class Beginning:
    """The moment at which something began, by a database's own clock."""

    at: datetime
    _ticks: float = field(default_factory=time.monotonic)

    def is_before(self, job: Any, names: Iterable[str]) -> bool:
        """Whether one of these columns of a job says that it happened since. What seems to be later
        than now is from before a clock was set back."""
        now = self.at + timedelta(seconds=time.monotonic() - self._ticks + 1)
        times = (getattr(job, name) for name in names)
        return any(isinstance(one, datetime) and self.at < aware(one) <= now for one in times)


def beginning_of(alias: str) -> Beginning:
    return Beginning(now_of(alias))
