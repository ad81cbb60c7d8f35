"""What a person does to jobs, from the admin or code: compare-and-set on what was seen."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

from ..fields import later
from ..states import MOVES, Status
from . import archive
from .claim_end import ONE_LESS, UNHARMED, RetryDecision, freed, owned
from .execute import changed, placeholders, rows
from .key_wakeup import ending_claims
from .limits import has_max_age, limits_of
from .table import LIFECYCLE_COLUMNS, Table

CHUNK = 500
CLOCK_STEP = 1.0  # seconds by which a row's own times may differ
Seen = tuple[Any, int, str | None]
Due = datetime | float  # a moment, or seconds from now by the database's clock


@dataclass
class Changed:
    """How many jobs were changed, and how many had moved on before."""

    changed: int = 0
    skipped: int = 0

    def __add__(self, other: "Changed") -> "Changed":
        return Changed(self.changed + other.changed, self.skipped + other.skipped)

    def __str__(self) -> str:
        if not self.skipped:
            return f"{self.changed} changed"
        return f"{self.changed} changed, {self.skipped} skipped: their state had moved on"


def bury(table: Table, seen: Iterable[Seen]) -> Changed:
    """Park jobs for a person; a running one goes on, but cannot write its outcome any more."""
    sets, _ = freed(table, RetryDecision(Status.BURIED, 0, "buried by hand"))
    return _move(table, seen, MOVES["bury"][0], sets)


def kick(
    table: Table,
    seen: Iterable[Seen],
    due: Due | None = None,
    time_to_run: int | None = None,
    attempts: int = 0,
) -> Changed:
    """Put buried and delayed jobs back to work, with all their attempts but for so many; now, or
    when they are ``due``, and with another time to run, where one is given."""
    sets, values = f"status = {Status.READY:d}, retry_at = NULL", list[Any]()
    if due is not None:
        sets, values = _delayed(table, due)
    sets += f", attempts = {attempts:d}, crashes = 0, losses = 0"
    sets += ", finished_at = NULL, failed_at = NULL, failure = NULL"
    if time_to_run is not None:
        sets += ", time_to_run = %s"
        values.append(time_to_run)
    return _move(table, seen, MOVES["kick"][0], sets, values, due)


def reschedule(table: Table, seen: Iterable[Seen], due: Due) -> Changed:
    """Have ready and delayed jobs run at another time, sooner or later; what they have tried counts
    as before."""
    return _move(table, seen, MOVES["reschedule"][0], *_delayed(table, due), due)


def prioritize(table: Table, seen: Iterable[Seen], priority: int) -> Changed:
    """Give ready, delayed and buried jobs another priority."""
    sets, values = _written(table, {"priority": priority})
    return _move(table, seen, MOVES["prioritize"][0], sets, values)


def _delayed(table: Table, due: Due) -> tuple[str, list[Any]]:
    moment, values = _moment(table, due)
    return f"status = {Status.DELAYED:d}, retry_at = {moment}", values


def _moment(table: Table, due: Due) -> tuple[str, list[Any]]:
    if isinstance(due, datetime):
        column = table.model._meta.get_field("retry_at")
        return "%s", [column.get_db_prep_save(due, table.connection)]
    return table.dialect.now_plus("%s"), [due]


def _end_after(table: Table, keys: Sequence[Any], due: Due) -> tuple[str, list[Any]]:
    """What has jobs expire no sooner than their queue's ``max_age`` after they are due now, but for
    those that were enqueued to expire sooner than that."""
    if not has_max_age(table.model):
        return "", []
    sql = f"SELECT DISTINCT queue FROM {table.by_key} WHERE {table.pk} IN ({placeholders(keys)})"
    with table.dialect.decode_leniently():
        queues = [queue for (queue,) in rows(table.connection, sql, keys)]
    until = table.dialect.seconds_until
    given = f"{until('expires_at')} - {until('created_at')}"
    cases, values = "", list[Any]()
    for queue in queues:
        age = limits_of(table.model, queue).max_age
        if age is not None and (end := _later(due, age)) is not None:
            moment, its = _moment(table, end)
            is_given = f"{given} > {age - CLOCK_STEP!r}"
            cases += f" WHEN queue = %s AND {is_given} AND expires_at < {moment} THEN {moment}"
            values += [queue, *its, *its]
    return (f", expires_at = CASE{cases} ELSE expires_at END" if cases else ""), values


def _later(due: Due, seconds: float) -> Due | None:
    if not isinstance(due, datetime):
        return due + seconds
    try:
        return later(due, timedelta(seconds=seconds))
    except OverflowError:
        return None  # there is no calendar any more


def release(table: Table, seen: Iterable[Seen]) -> Changed:
    """Take claimed jobs away from their owners; one that still runs may run twice."""
    sets, _ = freed(table, UNHARMED)
    return _move(table, seen, MOVES["release"][0], f"{sets}, attempts = {ONE_LESS}")


def cancel(table: Table, seen: Iterable[Seen]) -> Changed:
    """Take jobs out for good: into the archive as they are, or deleted where there is none."""

    return by_state(table, seen, MOVES["cancel"][0], partial(archive.take_out, table))


def delete(table: Table, seen: Iterable[Seen]) -> Changed:
    """Delete jobs that nobody holds, without a copy in the archive."""
    return by_state(table, seen, MOVES["delete"][0], partial(archive.delete, table))


def amend(table: Table, seen: Iterable[Seen], columns: Mapping[str, Any]) -> Changed:
    """Write the same into columns of jobs that nobody holds; of the lifecycle's own, what the
    ``errors`` say."""
    sets, values = _written(table, columns)
    return _move(table, seen, MOVES["delete"][0], sets, values)


def hasten(table: Table, seen: Iterable[Seen], columns: Mapping[str, Any]) -> Changed:
    """Make delayed jobs ready before their time, as they are but for these columns."""
    sets, values = _written(table, columns)
    return _move(
        table,
        seen,
        MOVES["promote"][0],
        f"status = {Status.READY:d}, retry_at = NULL, {sets}",
        values,
    )


def _written(table: Table, columns: Mapping[str, Any]) -> tuple[str, list[Any]]:
    if refused := (LIFECYCLE_COLUMNS - {"errors"}) & columns.keys():
        raise ValueError(f"only the lifecycle's verbs write {', '.join(sorted(refused))}")
    fields = [table.model._meta.get_field(name) for name in columns]
    quote = table.connection.ops.quote_name
    sets = ", ".join(f"{quote(field.column)} = %s" for field in fields)
    values = [
        field.get_db_prep_save(value, table.connection)
        for field, value in zip(fields, columns.values(), strict=True)
    ]
    return sets, values


def _move(
    table: Table,
    seen: Iterable[Seen],
    sources: Collection[Status],
    sets: str,
    values: Sequence[Any] = (),
    due: Due | None = None,
) -> Changed:
    """``due``: when a person wants them to run, if that was said."""

    def update(keys: Sequence[Any], condition: str, params: Sequence[Any]) -> int:
        end, its = ("", []) if due is None else _end_after(table, keys, due)
        return changed(
            table.connection,
            f"UPDATE {table.by_key} SET {sets}{end} "
            f"WHERE {table.pk} IN ({placeholders(keys)}) AND {condition}",
            [*values, *its, *keys, *params],
        )

    return by_state(table, seen, sources, update)


def by_state(
    table: Table,
    seen: Iterable[Seen],
    sources: Collection[Status],
    write: Callable[[Sequence[Any], str, Sequence[Any]], int],
) -> Changed:
    """Write chunks of jobs that were seen in the same state under the same owner."""
    result = Changed()
    for _, group in groupby(sorted(seen, key=_state), key=_state):
        alike = list(group)
        keys = sorted(key for key, _, _ in alike)
        _, status, owner = alike[0]
        if status not in sources:
            result.skipped += len(keys)
            continue
        same, its = owned(table, owner)
        # With the sign no index over the state is taken, which may lead through all rows in it.
        condition, params = f"+status = %s AND {same}", [status, *its]
        for start in range(0, len(keys), CHUNK):
            chunk = keys[start : start + CHUNK]
            with ending_claims(table, chunk):
                count = write(chunk, condition, params)
            result.changed += count
            result.skipped += len(chunk) - count
    return result


def _state(seen: Seen) -> tuple[str, str]:
    """What a hand wrote may be of any type: of these only the texts can be compared."""
    return repr(seen[1]), repr(seen[2])
