"""nothing -> ready or delayed: what every insert passes, and the insert that skips a duplicate."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import DatabaseDefault
from django.db.models.sql import InsertQuery

from .. import events
from ..dialects import dialect_of
from ..dialects.types import Statement
from ..exceptions import shown
from ..fields import DbNow, check_name, check_seconds
from ..states import Status
from .execute import retry
from .keys import give_key
from .limiter import place_in_lane
from .limits import expiry, has_max_age
from .policy import MAX_SECONDS
from .side_rows import written_with
from .table import Table

MAX_PRIORITY = 2**32 - 1
# Columns of ours that are mostly NULL, which is what the database writes by itself.
EMPTY = frozenset(
    {
        "owner",
        "dequeued_time",
        "retry_at",
        "time_to_run",
        "finished_at",
        "failed_at",
        "failure",
        "expires_at",
        "dedup_key",
        "trace_context",
    }
)
Columns = dict[str, Any]
NOBODY_HEARS = nullcontext[Columns]({})


def prepare(job: Any) -> None:
    """Validate a new job and derive its status; on ``ValidationError`` nothing is written."""
    if job.takes_keys:
        give_key(job)
    for name, check in CHECKS.items():
        check(getattr(job, name))
    for name, check in job.checked_columns.items():
        check(getattr(job, name))
    place_in_lane(job)
    for name in ("retry_at", "expires_at"):
        if (moment := getattr(job, name)) is not None:
            job._meta.get_field(name).get_prep_value(moment)
    if job.expires_at is None and has_max_age(type(job)):
        job.expires_at = expiry(type(job), job.queue, job.retry_at)
    job.status = Status.READY if job.retry_at is None else Status.DELAYED
    job.owner = job.dequeued_time = job.finished_at = job.failed_at = job.failure = None
    job.attempts = job.crashes = job.losses = 0
    job.errors = []


def announced(model: type[Any], jobs: Sequence[Any]) -> AbstractContextManager[Columns]:
    """Around the INSERT of prepared jobs, or of rows: what is to be written into each row besides;
    instances have it already."""
    return _Announced(model, jobs) if events.enqueueing.receivers and jobs else NOBODY_HEARS


class _Announced:
    def __init__(self, model: type[Any], jobs: Sequence[Any]) -> None:
        self.what = events.Enqueueing(model, jobs)

    def __enter__(self) -> Columns:
        jobs, columns = self.what.jobs, self.what.columns
        self._end = events.enqueueing(self.what)
        for job in jobs if columns and not isinstance(jobs[0], Mapping) else ():
            for name, value in columns.items():
                setattr(job, name, value)
        return columns

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._end(error)


def due_in(delay: float | None) -> DbNow | None:
    """The ``retry_at`` of a job that is due in ``delay`` seconds by the database's clock."""
    if delay is None or delay is False:
        return None
    try:
        seconds = check_seconds(delay, "delay", MAX_SECONDS)
    except ValueError as error:
        raise ValidationError({"delay": str(error)}) from None
    return DbNow(plus=seconds) if seconds else None


def checked_due(model: type[Any], due: Any) -> Any:
    """A moment, or seconds from now; ``ValidationError`` where it is neither."""
    if isinstance(due, datetime):
        return model._meta.get_field("retry_at").get_prep_value(due)
    try:
        return check_seconds(due, "due", MAX_SECONDS)
    except ValueError as error:
        raise ValidationError({"due": str(error)}) from None


def insert(table: Table, job: Any, fields: Sequence[Any]) -> Any | None:
    """Insert a prepared job by a statement that is worked out once; its key.

    None, and nothing is written, where a value is an expression that only Django's compiler reads.
    """
    values = written(table, job, fields)
    if values is None:
        return None
    sql, given = table.insert_of(tuple(values)), list(values.values())

    def run() -> Any:
        with table.connection.cursor() as cursor:
            return table.dialect.insert(cursor, sql, given, table.pk)

    key = retry(table.connection, run)
    return table.model._meta.pk.to_python(key) if job.pk is None else job.pk


def insert_after(
    table: Table, job: Any, fields: Sequence[Any], first: Statement, is_alone: bool
) -> Any | None:
    """The same, if an UPDATE before it has changed a row.

    ``is_alone``: in a transaction of their own.
    """
    values = written(table, job, fields)
    if values is None:
        return None
    sql, given = table.insert_of(tuple(values)), list(values.values())
    with table.connection.cursor() as cursor:
        key = table.dialect.insert_after(cursor, first, sql, given, table.pk, is_alone)
    if key is None:
        return None
    if job.pk is not None:
        return job.pk
    return table.model._meta.pk.to_python(key)


def written(table: Table, job: Any, fields: Sequence[Any]) -> dict[str, Any] | None:
    """By column what an INSERT writes; None where only Django's compiler knows."""
    values: dict[str, Any] = {}
    for field in fields:
        value = field.pre_save(job, add=True)
        if isinstance(value, DatabaseDefault) or (value is None and field.name in EMPTY):
            continue
        is_null_binary = value is None and field.column in table.binary
        if is_null_binary or hasattr(value, "resolve_expression"):
            return None
        values[field.column] = field.get_db_prep_save(value, table.connection)
    return values


def insert_new(table: Table, job: Any) -> bool:
    """Insert a prepared job unless its queue holds its ``dedup_key``; never breaks a transaction.

    On True the job has its key and is saved; on False nothing was written.
    """
    with announced(table.model, [job]):
        return write_new(table, job)


def write_new(table: Table, job: Any) -> bool:
    """``insert_new``, which somebody else has announced."""
    meta = table.model._meta
    is_given = job.pk is not None and not isinstance(job.pk, DatabaseDefault)
    left_out = None if is_given else meta.auto_field
    fields = [f for f in meta.concrete_fields if not f.generated and f is not left_out]
    query = InsertQuery(table.model)
    query.insert_values(fields, [job])
    [(sql, params)] = query.get_compiler(connection=table.connection).as_sql()

    def run() -> Any | None:
        with table.connection.cursor() as cursor:
            return table.dialect.insert_new(cursor, sql, params, table.pk)

    def keyed(key: Any) -> list[tuple[Any, Any]]:
        if key is None:
            return []
        return [(meta.pk.to_python(key) if key and not is_given else job.pk, job)]

    key = retry(table.connection, partial(written_with, table, run, keyed))
    if key is None:
        return False
    if key and not is_given:
        job.pk = meta.pk.to_python(key)
    job._state.adding, job._state.db = False, table.connection.alias
    notify_workers(table.connection, [job.status])
    return True


def notify_workers(connection: BaseDatabaseWrapper, statuses: Iterable[int]) -> None:
    """Tell idle workers of new jobs once these are committed, on databases that can."""
    if Status.READY in statuses:
        dialect_of(connection).notify()


def _check_range(field: str, low: int, high: int, value: Any) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise ValidationError(
            {field: f"{field} must be a whole number between {low} and {high}, not {shown(value)}"}
        )


def _if_given(check: Callable[[Any], None], value: Any) -> None:
    if value is not None:
        check(value)


# By column, what raises ``ValidationError`` for a value out of its limits.
CHECKS: dict[str, Callable[[Any], None]] = {
    "queue": partial(check_name, field="queue"),
    "dedup_key": partial(_if_given, partial(check_name, field="dedup_key")),
    "priority": partial(_check_range, "priority", 0, MAX_PRIORITY),
    "time_to_run": partial(_if_given, partial(_check_range, "time_to_run", 1, MAX_SECONDS)),
}
