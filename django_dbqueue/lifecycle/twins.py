"""What becomes of a waiting job that another one with its ``dedup_key`` would have joined."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError

from ..exceptions import shown
from ..fields import check_seconds
from ..states import Status
from .execute import changed, in_transaction, rows
from .keys import PARKED, follow_columns, gives_key
from .limits import has_max_age, limits_of
from .policy import MAX_SECONDS
from .side_rows import renewed_with
from .table import LIFECYCLE_COLUMNS, Table

KEEP, REPLACE = "keep", "replace"
WAITING = (Status.READY, Status.DELAYED)
WAITS = f"status IN ({WAITING[0]:d}, {WAITING[1]:d})"
TWIN = "queue = %s AND dedup_key = %s"
# What tells the waiting job apart from the new one.
KEPT_COLUMNS = LIFECYCLE_COLUMNS | {"queue", "created_at"}


@dataclass(frozen=True)
class Renewal:
    """``columns`` of the new job go into the waiting one; ``delay`` and ``debounce`` are seconds
    from now until it is due, the latter no later than ``max_wait`` after it was made.
    ``says_expiry``: when it expires is not for ``max_age`` to say; ``says_no_key``: the concurrency
    key is None, so that of its policy."""

    columns: Collection[str] = field(default_factory=frozenset)
    delay: float | None = None
    debounce: float | None = None
    max_wait: float | None = None
    says_expiry: bool = False
    says_no_key: bool = False

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
    says_expiry = columns.get("expires_at") is not None
    says_no_key = columns.get("concurrency_key", "") is None
    return Renewal(replaced, moved, debounce, max_wait, says_expiry, says_no_key)


def is_behind(table: Table) -> bool:
    """Whether plain reads of the open transaction show what was as it began."""
    return table.connection.in_atomic_block and not table.dialect.sees_commits


def renew(table: Table, job: Any, change: Renewal) -> Any | None:
    """Change the job that waits with the key of the new one; its own key, None where none waits."""
    locking = table.connection.ops.for_update_sql() if is_behind(table) else ""
    sql = f"SELECT {table.pk} FROM {table.name} WHERE {TWIN} {locking}"
    found = rows(table.connection, sql, [job.queue, job.dedup_key])
    if not found or not renew_with_key(table, job, change, found[0][0]):
        return None
    return table.model._meta.pk.to_python(found[0][0])


def renew_with_key(table: Table, job: Any, change: Renewal, key: Any) -> bool:
    """The same, of the job with this key; False where it does not wait any more."""
    given = table, job, change, key
    says_key = "concurrency_key" in change.columns and not change.says_no_key
    if not change.columns or says_key or not gives_key(table.model):
        return _write(*given)
    return in_transaction(table.connection, partial(_write_with_key, *given))


def _write(table: Table, job: Any, change: Renewal, key: Any, *rekeyed: str | None) -> bool:
    """``rekeyed``: its new concurrency key, where it gets another one."""
    sets, values = _sets(table, job, change, rekeyed)
    sql = f"UPDATE {table.by_key} SET {sets} WHERE {table.pk} = %s AND {WAITS} AND {TWIN}"
    params = [*values, key, job.queue, job.dedup_key]
    write = partial(changed, table.connection, sql, params)
    return (renewed_with(table, key, write) if change.columns or rekeyed else write()) == 1


def _write_with_key(table: Table, job: Any, change: Renewal, key: Any) -> bool:
    """The same; the concurrency key is that of the whole row, so nobody may change it meanwhile."""
    rows_now = table.model._base_manager.using(table.connection.alias).select_for_update()
    waiting = rows_now.filter(pk=table.model._meta.pk.to_python(key), status__in=WAITING)
    row = waiting.order_by("pk").first()
    if row is None:
        return False
    is_anew = "concurrency_key" in change.columns
    change = replace(change, columns=set(change.columns) - {"concurrency_key"})
    columns = {name: getattr(job, name) for name in change.columns}
    is_another = follow_columns(row, columns, is_anew=is_anew)
    return _write(table, job, change, key, *[row.concurrency_key] * is_another)


def _sets(
    table: Table, job: Any, change: Renewal, rekeyed: Sequence[str | None]
) -> tuple[str, list[Any]]:
    age = limits_of(table.model, job.queue).max_age if has_max_age(table.model) else None
    if change.says_expiry:
        age = None
    names = _names(change, has_age=age is not None)
    sets, values = _replaced(table, job, names)
    sets += ["concurrency_key = %s"] * len(rekeyed)
    values += rekeyed
    status = "status"
    if rekeyed or "concurrency_key" in names:
        status = f"CASE WHEN {PARKED} THEN {Status.READY:d} ELSE status END"
    if "retry_at" in names:
        status = f"{Status.DELAYED:d}"
    if change.delay is not None or change.debounce is not None:
        moves, seconds = _moved(table, change)
        end = {"expires_at": f"{seconds} + {float(age)!r}"} if age else {}
        times = {"retry_at": seconds} | end
        for name, time in times.items():
            due = table.dialect.now_plus(time)
            sets.append(f"{name} = CASE WHEN {moves} THEN {due} ELSE {name} END")
        status = f"CASE WHEN {moves} THEN {Status.DELAYED:d} ELSE {status} END"
    # At the end: a database may look at what it has just assigned, and no other column does.
    return ", ".join([*sets, f"status = {status}"]), values


def _names(change: Renewal, *, has_age: bool) -> list[str]:
    """The columns of the new job that are written into the one that waits."""
    names = set(change.columns)
    if has_age:  # the end follows the time, and nothing else
        names -= {"expires_at"}
        names |= {"expires_at"} if "retry_at" in names else set()
    return sorted(names)


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


def _moved(table: Table, change: Renewal) -> tuple[str, str]:
    """When a job moves, and in how many seconds it is due then: by a debounce one that has been
    tried waits for its own retry."""
    if change.debounce is None:
        return "1 = 1", repr(float(change.delay or 0))
    seconds = repr(float(change.debounce))
    if change.max_wait is None:
        return "attempts = 0", seconds
    left = f"({table.dialect.seconds_until('created_at')} + {float(change.max_wait)!r})"
    sooner = f"CASE WHEN {left} < {seconds} THEN {left} ELSE {seconds} END"
    return f"attempts = 0 AND {left} > 0", sooner


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
