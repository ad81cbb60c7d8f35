"""nothing -> ready or delayed, many at once: rows that nobody needs as instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import models
from django.db.models.fields import NOT_PROVIDED

from ..exceptions import shown
from ..states import Status
from .admission import admit
from .bulk_columns import ROWS_MAX, Column, check_all, column, insert
from .enqueue import CHECKS, announced, notify_workers
from .execute import retry
from .limits import has_max_age, limits_of
from .table import LIFECYCLE_COLUMNS, Table

# What the lifecycle writes into a new row, in SQL; its other columns stay empty.
FIXED = {"attempts": "0", "crashes": "0", "losses": "0", "errors": "'[]'"}
OPEN = {"retry_at", "dedup_key"}
QUIET = {
    field.pre_save
    for field in (models.Field, models.DateField, models.DateTimeField, models.TimeField)
}
PLAIN = {int, str, float, bool, type(None)}


class Inserter:
    """The multi-row INSERT of rows that give the same columns."""

    def __init__(self, table: Table, rows: Sequence[Mapping[str, Any]], delay: float) -> None:
        self.table, self.rows, self.delay = table, rows, delay
        meta = table.model._meta
        self._queue, self._priority = (
            meta.get_field(name).get_default() for name in ("queue", "priority")
        )
        # By column in the database; None = it is left to that.
        self.columns: dict[str, Column | None] = {}
        for name in rows[0]:
            field = _field_of(table.model, name)
            self._read(field, [row[name] for row in rows])
        if delay:
            retry_at = meta.get_field("retry_at")
            self._write(retry_at, table.dialect.now_plus(repr(float(delay))))
        if "retry_at" in rows[0]:
            self._read(meta.get_field("status"), list(map(_status_of, rows)))
        else:
            status = Status.DELAYED if delay else Status.READY
            self._write(meta.get_field("status"), f"{status:d}")
        if has_max_age(table.model):
            moment = table.moment_of(meta.get_field("expires_at"))
            self.columns["expires_at"] = Column(moment, list(map(self._expiry, rows)))
        for field in meta.concrete_fields:
            if field.column not in self.columns and field is not meta.auto_field:
                self._default(field)

    def run(self) -> None:
        """All of them or none."""
        columns = [one for one in self.columns.values() if one]
        write = partial(insert, self.table, columns, len(self.rows), ROWS_MAX)
        retry(self.table.connection, write)

    def places(self) -> Iterator[tuple[str, int]]:
        """The queue and priority of each row."""
        for row in self.rows:
            yield row.get("queue", self._queue), row.get("priority", self._priority)

    def _expiry(self, row: Mapping[str, Any]) -> float | None:
        seconds = limits_of(self.table.model, row.get("queue", self._queue)).max_age
        return None if seconds is None else seconds + self.delay

    def _read(self, field: Any, given: Sequence[Any]) -> None:
        self.columns[field.column] = column(self.table, field, self._checked(field, given))

    def _write(self, field: Any, text: str) -> None:
        self.columns[field.column] = Column(self.table.inserted(field, text))

    def _default(self, field: Any) -> None:
        if field.name in FIXED:
            self._write(field, FIXED[field.name])
        if field.name in LIFECYCLE_COLUMNS or field.db_default is not NOT_PROVIDED:
            return
        count = len(self.rows)
        if field.has_default() and callable(field.default):
            self._read(field, [field.get_default() for _ in range(count)])
        elif (value := field.get_default()) is not None:
            self._read(field, [value] * count)

    def _checked(self, field: Any, given: Sequence[Any]) -> Sequence[Any]:
        if check := (CHECKS | self.table.model.checked_columns).get(field.name):
            check_all(check, given)
        if set(map(type, given)) <= PLAIN:
            return given
        return [_plain(field, value) for value in given]


def check_rows(rows: Sequence[object]) -> None:
    """``TypeError`` where one is no dict."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} must be a dict of columns, not {shown(row)}")


def check_columns(model: type[models.Model], rows: Sequence[Mapping[str, Any]]) -> None:
    """All rows give the same columns, none that only the lifecycle writes; else ``ValueError``."""
    names = rows[0].keys()
    if refused := LIFECYCLE_COLUMNS.difference(OPEN) & names:
        raise ValueError(f"{', '.join(sorted(refused))}: only the lifecycle writes these columns")
    if len({_field_of(model, name) for name in names}) < len(names):
        raise ValueError(f"a column is named twice: {', '.join(sorted(names))}")
    for number, row in enumerate(rows):
        if row.keys() != names:
            odd = ", ".join(sorted(row.keys() ^ names))
            raise ValueError(f"row {number} and row 0 name different columns: {odd}")


def insert_many(table: Table, rows: Sequence[Mapping[str, Any]], delay: float) -> None:
    """Insert rows whose columns were checked; on an error nothing is written.

    ``delay`` in seconds: 0 = as their ``retry_at`` says. ``QueueFull`` where a queue stays full.
    """
    with announced(table.model, rows) as more:
        whole = [{**row, **more} for row in rows] if more else rows
        inserter = Inserter(table, whole, delay)
        admit(table, inserter.places, inserter.run)
    is_delayed = delay or all(row.get("retry_at") for row in rows)
    notify_workers(table.connection, [Status.DELAYED if is_delayed else Status.READY])


def may_insert(table: Table, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether ``Inserter`` can write such rows as ``bulk_create`` would."""
    model = table.model
    knows_expiry = not (has_max_age(model) and {"retry_at", "expires_at"} & rows[0].keys())
    # Side rows have the key, which nobody knows.
    is_whole = is_simple(model) and getattr(model, "side_rows", None) is None
    # MySQL takes no null where it takes bytes.
    bits = [name for name in rows[0] if _field_of(model, name).column in table.binary]
    return knows_expiry and is_whole and not any(row[name] is None for name in bits for row in rows)


def is_simple(model: type[models.Model]) -> bool:
    """Whether its fields write what they are given, and nothing of the instance besides."""
    return all(
        type(field).pre_save in QUIET
        and not getattr(field, "auto_now", False)
        and not getattr(field, "auto_now_add", False)
        for field in model._meta.concrete_fields
    )


def _field_of(model: type[models.Model], name: str) -> Any:
    for field in model._meta.concrete_fields:
        if name in {field.name, field.attname}:
            return field
    raise ValueError(f"{model._meta.label_lower} has no column {name!r}")


def _plain(field: Any, value: Any) -> Any:
    """What the column of a field holds of a value; ``TypeError`` of an expression, ``ValueError``
    of what is no saved instance that the field may name."""
    if hasattr(value, "resolve_expression"):
        raise TypeError(f"{field.name}: enqueue_many() takes values, not expressions")
    if not isinstance(value, models.Model):
        return value
    wanted = field.remote_field.model._meta if field.is_relation else None
    key = wanted and getattr(value, field.target_field.attname, None)
    if wanted is None or key is None or not isinstance(value, wanted.concrete_model):
        kind = f"saved {wanted.label}" if wanted else "relation"
        raise ValueError(f"{field.name}: {value!r} is no {kind}")
    return key


def _status_of(row: Mapping[str, Any]) -> int:
    return int(Status.READY if row["retry_at"] is None else Status.DELAYED)
