"""What time it is by a database's own clock, as a value: by an expression no index is searched."""

from datetime import UTC, datetime

from django.db import connections

from ..dialects import dialect_of
from ..lifecycle.execute import rows


def now_of(alias: str) -> datetime:
    dialect = dialect_of(connections[alias])
    sql = f"SELECT {dialect.readable_expression(dialect.now)}"
    [(moment,)] = rows(connections[alias], sql, [])
    found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return found.replace(tzinfo=UTC)
