"""Millions of rows that a queue table and its archive have gathered, made by the server itself."""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.db import connection, connections

from django_dbqueue.dialects import dialect_of
from django_dbqueue.states import Status

CHUNK = 250_000  # rows a transaction
RATE = 500  # jobs a second, as which they have come
DAY = 86_400  # seconds; what is to come does so a day later
PART = 10  # finished rows for one delayed and one ready row
QUEUE = "CASE n %% 3 WHEN 0 THEN 'mail' WHEN 1 THEN 'reports' ELSE 'thumbnails' END"
OWNER = "'4c86a4b9d27f4be8a4a4f0c1f6a35f0b.1-1'"
NUMBERS = {
    "postgresql": "SELECT n FROM GENERATE_SERIES({first}, {last}) AS numbers (n)",
    "mysql": "SELECT CAST(seq AS SIGNED) AS n FROM seq_{first}_to_{last}",
    "sqlite": "WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers "
    "WHERE n < {last}) SELECT n FROM numbers",
}
ANALYZE = {
    "mysql": "ANALYZE TABLE {}",
    "postgresql": "ANALYZE {}",
    "sqlite": "PRAGMA analysis_limit = 1000; ANALYZE {}",
}


def last_key(rows: int) -> int:
    """Of all rows that ``make`` makes."""
    return 2 * rows + 2 * (rows // PART)


def make(model: Any, rows: int) -> None:
    """So many archived jobs, as many finished ones, a tenth of them delayed, a tenth ready."""
    archived = apps.get_model(model.policy().archive)
    first = 0
    for into, status, count in (
        (archived, Status.DONE, rows),
        (model, Status.DONE, rows),
        (model, Status.DELAYED, rows // PART),
        (model, Status.READY, rows // PART),
    ):
        insert(into, status, count, first)
        first += count
    reset_keys(model)
    analyze(model)
    analyze(archived)


def insert(model: Any, status: Status, count: int, after: int, ago: float = 0) -> None:
    """So many rows of one state, with the keys after one, as they would have been made at a rate
    of 500 a second until so many seconds ago."""
    for sql in inserts(model, status, count, after, ago):
        execute(sql)


def inserts(model: Any, status: Status, count: int, after: int, ago: float) -> Iterator[str]:
    """The statements for it."""
    values = columns(status, f"(n - {count}) / {RATE}.0 - {ago}")
    select = ", ".join([f"{after} + n", *values.values()])
    into = f"{model._meta.db_table} (id, {', '.join(values)})"
    for start in range(0, count, CHUNK):
        last = min(start + CHUNK, count)
        numbers = NUMBERS[connection.vendor].format(first=start + 1, last=last)
        yield f"INSERT INTO {into} SELECT {select} FROM ({numbers}) one"


def columns(status: Status, seconds: str) -> dict[str, str]:
    """SQL of the n-th row by its column; ``seconds`` from now is when it was finished, or made."""
    now_plus = dialect_of(connections["default"]).now_plus
    values = dict.fromkeys(("attempts", "crashes", "losses"), "0") | {
        "queue": QUEUE,
        "priority": "CASE n %% 10 WHEN 0 THEN 10 ELSE 1024 END",
        "status": f"{status:d}",
        "errors": "'[]'",
        "created_at": now_plus(f"{seconds} - 1"),
        "number": "-1",
    }
    moment, later = now_plus(seconds), now_plus(f"{seconds} + {DAY}")
    if status == Status.DONE:
        values |= {"attempts": "1", "owner": OWNER, "dequeued_time": moment, "finished_at": moment}
    return values if status == Status.READY else values | {"retry_at": later}


def reset_keys(model: Any) -> None:
    """The next job's key comes after those of the rows."""
    for sql in connection.ops.sequence_reset_sql(no_style(), [model]):
        execute(sql)


def analyze(model: Any) -> None:
    """A table that has just been filled has no statistics yet; one in use has."""
    for sql in ANALYZE[connection.vendor].format(model._meta.db_table).split("; "):
        execute(sql)


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        # As with parameters, so that a doubled % is one.
        cursor.execute(sql, [])
        if cursor.description:
            cursor.fetchall()
