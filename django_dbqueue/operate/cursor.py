"""Cursors of keyset pagination: the values by which a row is found again in its list's order, in
addresses and in SQL."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import connections
from django.db.models import (
    BooleanField,
    CharField,
    Expression,
    F,
    Field,
    Lookup,
    Model,
    Q,
    QuerySet,
)
from django.utils import timezone

from ..dialects import dialect_of
from ..fields import aware

Cursor = tuple[Any, ...]
# The largest number in a column of numbers.
BIGINT_MAX = 2**63 - 1
# Columns that a list in their order has values of, though others have none.
TIMES = ("retry_at", "failed_at", "finished_at")
LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}


@dataclass(frozen=True)
class Order:
    """The columns that a list is ordered by, all in one direction; the last one is the key.

    ``along``: columns that are the same in all of its rows, for a database that takes an index by
    them only where they are named, too.
    """

    names: tuple[str, ...]
    is_descending: bool = False
    along: tuple[str, ...] = ()

    def columns(self, backwards: bool) -> list[str]:
        """For ``order_by``; reversed if ``backwards``."""
        sign = "-" if self.is_descending != backwards else ""
        return [sign + name for name in (*self.along, *self.names)]

    def after(self, rows: QuerySet[Any], cursor: Cursor, backwards: bool) -> QuerySet[Any]:
        """Of the rows those after a cursor, or those before it if ``backwards``."""
        return self._compared(rows, cursor, "<" if self.is_descending != backwards else ">")

    def up_to(self, rows: QuerySet[Any], cursor: Cursor, backwards: bool) -> QuerySet[Any]:
        """Of the rows those up to a cursor, and at it; from it on if ``backwards``."""
        return self._compared(rows, cursor, ">=" if self.is_descending != backwards else "<=")

    def _compared(self, rows: QuerySet[Any], cursor: Cursor, sign: str) -> QuerySet[Any]:
        if dialect_of(connections[rows.db]).compares_rows:
            return rows.filter(Condition(RowComparison(self.names, cursor, sign), rhs=True))
        *outer, (name, value) = zip(self.names, cursor, strict=True)
        found = Q(**{f"{name}__{LOOKUPS[sign]}": value})
        for name, value in reversed(outer):
            beyond = Q(**{f"{name}__{LOOKUPS[sign[0]]}": value})
            found = beyond | (Q(**{name: value}) & found)
        return rows.filter(found)

    def cursor_of(self, row: Any) -> Cursor:
        return tuple(getattr(row, name) for name in self.names)


BY_KEY = Order(("id",), is_descending=True)
# Those without a time come last, and their cursors have None in its place.
BY_FAILURE = Order(("failed_at", "id"), is_descending=True)


def order_of(model: type[Model], ordering: Sequence[Any]) -> Order | None:
    """The order of these names; None where a list in it cannot be paged through by cursors."""
    if not all(isinstance(name, str) for name in ordering):
        return None
    key = model._meta.pk.name
    names = tuple(key if n.lstrip("-") == "pk" else n.lstrip("-") for n in ordering)
    signs = {name.startswith("-") for name in ordering}
    whole = names[: names.index(key) + 1] if key in names else ()
    if len(signs) != 1 or not whole:
        return None
    for name in whole:
        try:
            field = model._meta.get_field(name)
        except FieldDoesNotExist:
            return None
        # No row is before or after one without a value; due jobs have a time, and so have failed
        # ones.
        if not isinstance(field, Field) or (field.null and name not in TIMES):
            return None
    return Order(whole, signs.pop())


def encode(cursor: Cursor) -> str:
    """A cursor for an address."""
    return json.dumps([v if v is None or isinstance(v, int) else _text(v) for v in cursor])


def _text(value: Any) -> str:
    """A moment in UTC: without a zone, an hour that clocks show twice is the first one."""
    if isinstance(value, datetime) and timezone.is_naive(value):
        with suppress(OverflowError):  # at the ends of all years
            value = aware(value).astimezone(UTC)
    return str(value)


def decode(model: type[Model], order: Order, text: str) -> Cursor | None:
    """The cursor in an address, None = the list's end; ``ValueError`` where there is none."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError(text) from None
    if values == []:
        return None
    if not isinstance(values, list) or len(values) != len(order.names):
        raise ValueError(text)
    return tuple(
        None
        if value is None and name == "failed_at"
        else _value(model._meta.get_field(name), value)
        for name, value in zip(order.names, values, strict=True)
    )


def _value(field: Any, value: Any) -> Any:
    if not isinstance(value, int | str) or "\0" in str(value):
        raise ValueError(value)
    try:
        found = field.to_python(str(value).encode().decode())
    except (ValidationError, OverflowError):
        raise ValueError(value) from None
    if isinstance(found, int) and abs(found) > BIGINT_MAX:
        raise ValueError(value)
    is_of_zone = isinstance(found, datetime) and timezone.is_aware(found)
    return _as_of_project(found) if is_of_zone and not settings.USE_TZ else found


def _as_of_project(moment: datetime) -> datetime:
    try:
        return timezone.make_naive(moment, timezone.get_default_timezone())
    except OverflowError:
        raise ValueError(moment) from None


class Condition(Lookup):
    """A condition as it is. Django 6.1 compares any other expression with true on SQLite and MySQL,
    and then they use no index."""

    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return compiler.compile(self.lhs)  # type: ignore[no-any-return]


class RowComparison(Expression):
    """Whether a row is before or after a cursor, in one comparison of several columns."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, names: Sequence[str], cursor: Cursor, sign: str) -> None:
        super().__init__()
        self.columns: list[Any] = [F(name) for name in names]
        self.cursor, self.sign = cursor, sign

    def get_source_expressions(self) -> list[Any]:
        return self.columns

    def set_source_expressions(self, exprs: Sequence[Any]) -> None:
        self.columns = list(exprs)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        names = ", ".join(compiler.compile(column)[0] for column in self.columns)
        values = []
        for column, value in zip(self.columns, self.cursor, strict=True):
            field = column.output_field
            # A text edited by hand into a column of another type is compared as it is.
            is_odd = isinstance(value, str) and not isinstance(field, CharField)
            values.append(value if is_odd else field.get_db_prep_value(value, connection))
        placeholders = ", ".join(map(dialect_of(connection).placeholder, values))
        return f"({names}) {self.sign} ({placeholders})", values
