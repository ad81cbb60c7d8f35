"""What time it is by a database's own clock, as a value: by an expression no index is searched; and
which jobs were to be seen at such a time."""

from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.db.models import Q, QuerySet

from ..dialects import dialect_of
from ..lifecycle.execute import rows

# Of what happened to a job after a moment: it was not as it is when it was shown then.
HAPPENED = ("dequeued_time", "failed_at")
CHANGED = ("created_at", *HAPPENED)


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


def is_changed_within(job: Any, start: datetime, end: datetime) -> bool:
    """Whether a job that was read came, was claimed or failed after a moment, up to another."""
    times = (getattr(job, name) for name in CHANGED)
    return any(isinstance(one, datetime) and start < one <= end for one in times)
