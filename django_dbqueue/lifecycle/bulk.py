"""nothing -> ready or delayed, many at once: rows that nobody needs as instances."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import models, transaction
from django.db.models.fields import NOT_PROVIDED

from ..dialects.types import Inserted
from ..exceptions import shown
from ..states import Status
from .admission import admit
from .enqueue import CHECKS, announced, notify_workers
from .execute import retry
from .limits import has_max_age, limits_of
from .table import LIFECYCLE_COLUMNS, Table

ROWS_MAX = 1000  # of one statement
BIGINT_MAX = 2**63 - 1
# What the lifecycle writes into a new row, in SQL; its other columns stay empty.
FIXED = {"attempts": "0", "crashes": "0", "losses": "0", "errors": "'[]'"}
OPEN = {"retry_at", "dedup_key"}
QUIET = {
    field.pre_save
    for field in (models.Field, models.DateField, models.DateTimeField, models.TimeField)
}
# No quote, backslash or percent sign: the same in the text of every database.
WORD = re.compile(r"[A-Za-z0-9_\[\]]*")
PLAIN = {int, str, float, bool, type(None)}

Reader = Callable[[Mapping[str, Any]], Any]


class Inserter:
    """The multi-row INSERT of rows that give the same columns."""

    def __init__(self, table: Table, names: Sequence[str], delay: float) -> None:
        self.table = table
        self.names, self.delay = names, delay
        fields = (table.model._meta.get_field(name) for name in ("queue", "priority"))
        self._queue, self._priority = (field.get_default() for field in fields)
        # By column its SQL, which is the same in every row, and what has to be filled in.
        self.columns: dict[str, Inserted] = {}
        self.readers: list[Reader] = []
        for name in names:
            field = _field_of(table.model, name)
            prepare = self._prepared(field)
            self._read(field, lambda row, name=name, prepare=prepare: prepare(row[name]))  # type: ignore[misc]
        meta = table.model._meta
        if delay:
            retry_at = meta.get_field("retry_at")
            self._write(retry_at, table.dialect.now_plus(repr(float(delay))))
        if "retry_at" in names:
            self._read(meta.get_field("status"), _status_of)
        else:
            status = Status.DELAYED if delay else Status.READY
            self._write(meta.get_field("status"), f"{status:d}")
        if has_max_age(table.model):
            self.columns["expires_at"] = table.moment_of(meta.get_field("expires_at"))
            self.readers.append(self._expiry)
        for field in meta.concrete_fields:
            if field.column not in self.columns and field is not meta.auto_field:
                self._default(field)

    def run(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All of them or none."""
        read, ops = self.readers, self.table.connection.ops
        size = max(1, min(ROWS_MAX, ops.bulk_batch_size(read, rows)))
        chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
        # Before the transaction, which a value that is refused shall not break.
        filled = [[tuple([reader(row) for reader in read]) for row in chunk] for chunk in chunks]
        columns = list(self.columns.values())

        def write() -> None:
            with transaction.atomic(using=self.table.connection.alias, savepoint=False):
                for chunk in filled:
                    statement = self.table.dialect.insert_of(self.table.name, columns, chunk)
                    with self.table.connection.cursor() as cursor:
                        cursor.execute(*statement)

        retry(self.table.connection, write)

    def place_of(self, row: Mapping[str, Any]) -> tuple[str, int]:
        """Its queue and priority; ``ValidationError`` where one is none."""
        place = {"queue": self._queue, "priority": self._priority}
        place |= {name: row[name] for name in place.keys() & row.keys()}
        for name, value in place.items():
            CHECKS[name](value)
        return place["queue"], place["priority"]

    def _expiry(self, row: Mapping[str, Any]) -> float | None:
        seconds = limits_of(self.table.model, row.get("queue", self._queue)).max_age
        return None if seconds is None else seconds + self.delay

    def _read(self, field: Any, reader: Reader) -> None:
        self._write(field, "%s")
        self.readers.append(reader)

    def _write(self, field: Any, text: str) -> None:
        self.columns[field.column] = self.table.inserted(field, text)

    def _default(self, field: Any) -> None:
        """A number or a word stands in the text: it needs not be filled in for every row."""
        if field.name in FIXED:
            self._write(field, FIXED[field.name])
        if field.name in LIFECYCLE_COLUMNS or field.db_default is not NOT_PROVIDED:
            return
        prepare = self._prepared(field)
        if field.has_default() and callable(field.default):
            self._read(field, lambda _: prepare(field.get_default()))
            return
        value = prepare(field.get_default())
        if text := literal(value):
            self._write(field, text)
        elif value is not None:
            self._read(field, lambda _: value)

    def _prepared(self, field: Any) -> Callable[[Any], Any]:
        checks = CHECKS | self.table.model.checked_columns
        check, connection = checks.get(field.name), self.table.connection

        def prepared(value: Any) -> Any:
            if check is not None:
                check(value)
            if type(value) not in PLAIN:
                value = _plain(field, value)
            return field.get_db_prep_save(value, connection)

        return prepared


def literal(value: Any) -> str:
    """How a number or a plain word stands in a statement; '' of all others."""
    if isinstance(value, int) and not isinstance(value, bool):
        # A larger one SQLite would take as a float.
        return f"{value:d}" if abs(value) <= BIGINT_MAX else ""
    return f"'{value}'" if type(value) is str and WORD.fullmatch(value) else ""


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
        inserter = Inserter(table, list(whole[0]), delay)
        admit(table, lambda: map(inserter.place_of, whole), partial(inserter.run, whole))
    is_delayed = delay or all(row.get("retry_at") for row in rows)
    notify_workers(table.connection, [Status.DELAYED if is_delayed else Status.READY])


def may_insert(model: type[models.Model], names: Collection[str]) -> bool:
    """Whether ``Inserter`` can write such rows as ``bulk_create`` would."""
    knows_expiry = not (has_max_age(model) and {"retry_at", "expires_at"} & set(names))
    # Side rows have the key, which nobody knows.
    return knows_expiry and is_simple(model) and getattr(model, "side_rows", None) is None


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
