"""What becomes of a waiting job that another one with its ``dedup_key`` would have joined."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError

from ..exceptions import shown
from ..fields import check_seconds
from ..states import Status
from .execute import changed, rows
from .keys import PARKED, gives_key
from .policy import MAX_SECONDS
from .side_rows import renewed_with
from .table import LIFECYCLE_COLUMNS, Table

KEEP, REPLACE = "keep", "replace"
WAITS = f"status IN ({Status.READY:d}, {Status.DELAYED:d})"
# What tells the waiting job apart from the new one.
KEPT_COLUMNS = LIFECYCLE_COLUMNS | {"queue", "created_at"}


@dataclass(frozen=True)
class Renewal:
    """``columns`` of the new job go into the waiting one; ``delay`` and ``debounce`` are seconds
    from now until it is due, the latter no later than ``max_wait`` after it was made."""

    columns: Collection[str] = field(default_factory=frozenset)
    delay: float | None = None
    debounce: float | None = None
    max_wait: float | None = None

    def __bool__(self) -> bool:
        return bool(self.columns) or self.delay is not None or self.debounce is not None


def renewal(
    kept: Collection[str],
    dedup_key: str | None,
    columns: Mapping[str, Any],
    delay: float | None,
    on_duplicate: str,
    debounce: float | None,
    max_wait: float | None,
) -> Renewal:
    """``ValidationError`` names the option that is out of its limits, or does not fit another.

    ``kept``: columns that are not replaced, besides the lifecycle's.
    """
    if on_duplicate not in (KEEP, REPLACE):
        _refuse("on_duplicate", f"must be 'keep' or 'replace', not {shown(on_duplicate)}")
    is_renewed = on_duplicate == REPLACE or debounce is not None
    if is_renewed and dedup_key is None:
        _refuse("dedup_key", "is needed for on_duplicate='replace' and for debounce")
    if max_wait is not None and debounce is None:
        _refuse("max_wait", "is of no use without debounce")
    if debounce is not None:
        if delay or columns.get("retry_at") is not None:
            _refuse("debounce", "says when it is due: give no delay, and no retry_at")
        debounce = _seconds("debounce", debounce)
        max_wait = None if max_wait is None else _seconds("max_wait", max_wait)
        if max_wait is not None and max_wait < debounce:
            _refuse("max_wait", f"must be at least as long as debounce, {debounce:g} s")
    replaced = set(columns) - KEPT_COLUMNS - set(kept)
    if columns.get("retry_at") is not None:
        replaced.add("retry_at")
    if on_duplicate == KEEP:
        replaced = set()
    moved = delay if delay and on_duplicate == REPLACE else None
    return Renewal(replaced, moved, debounce, max_wait)


def renew(table: Table, job: Any, change: Renewal) -> bool:
    """Change the job that waits with the key of the new one; False where none waits."""
    twin = "queue = %s AND dedup_key = %s"
    params = [job.queue, job.dedup_key]
    found = rows(table.connection, f"SELECT {table.pk} FROM {table.name} WHERE {twin}", params)
    if not found:
        return False
    sets, values = _sets(table, job, change)
    sql = f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND {WAITS} AND {twin}"
    key = found[0][0]
    write = partial(changed, table.connection, sql, [*values, key, *params])
    return (renewed_with(table, key, write) if change.columns else write()) == 1


def _sets(table: Table, job: Any, change: Renewal) -> tuple[str, list[Any]]:
    follows = {"concurrency_key"} if change.columns and gives_key(table.model) else set()
    names = sorted(follows.union(change.columns))
    sets, values = _replaced(table, job, names)
    status = f"CASE WHEN {PARKED} THEN {Status.READY:d} ELSE status END"
    if "concurrency_key" not in names:
        status = "status"
    if "retry_at" in names:
        status = f"{Status.DELAYED:d}"
    if change.delay is not None:
        sets.append(f"retry_at = {table.dialect.now_plus('%s')}")
        values.append(change.delay)
        status = f"{Status.DELAYED:d}"
    if change.debounce is not None:
        moves, due = _debounced(table, change.debounce, change.max_wait)
        sets.append(f"retry_at = CASE WHEN {moves} THEN {due} ELSE retry_at END")
        status = f"CASE WHEN {moves} THEN {Status.DELAYED:d} ELSE {status} END"
    # At the end: a database may look at what it has just assigned, and no other column does.
    return ", ".join([*sets, f"status = {status}"]), values


def _replaced(table: Table, job: Any, names: Collection[str]) -> tuple[list[str], list[Any]]:
    """What writes columns of the new job into the one that waits."""
    sets, values = list[str](), list[Any]()
    for name in names:
        column = table.model._meta.get_field(name)
        value = column.pre_save(job, add=False)
        if hasattr(value, "resolve_expression"):
            _refuse(name, "must be a value, not an expression, to replace another")
        sets.append(f"{table.connection.ops.quote_name(column.column)} = %s")
        values.append(column.get_db_prep_save(value, table.connection))
    return sets, values


def _debounced(table: Table, debounce: float, max_wait: float | None) -> tuple[str, str]:
    """When a job moves, and whereto: one that has been tried waits for its own retry."""
    seconds = repr(float(debounce))
    if max_wait is None:
        return "attempts = 0", table.dialect.now_plus(seconds)
    left = f"({table.dialect.seconds_until('created_at')} + {float(max_wait)!r})"
    sooner = f"CASE WHEN {left} < {seconds} THEN {left} ELSE {seconds} END"
    return f"attempts = 0 AND {left} > 0", table.dialect.now_plus(sooner)


def _seconds(name: str, value: float) -> float:
    try:
        seconds = check_seconds(value, name, MAX_SECONDS)
    except ValueError as error:
        raise ValidationError({name: str(error)}) from None
    if not seconds:
        _refuse(name, "must be more than 0 seconds")
    return seconds


def _refuse(name: str, problem: str) -> None:
    raise ValidationError({name: f"{name} {problem}"})
