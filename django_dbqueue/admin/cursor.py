"""Places in a list: the values by which a row stands there, in addresses and in SQL."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

from ..dialects import dialect_of

Place = tuple[Any, ...]
# At most so many digits stand in a column of numbers.
BIGGEST = 2**63 - 1


@dataclass(frozen=True)
class Order:
    """The columns that a list is ordered by, all in one direction; the last one is the key."""

    names: tuple[str, ...]
    is_descending: bool = False

    def toward(self, backwards: bool) -> list[str]:
        """The order itself, or the other way round."""
        sign = "-" if self.is_descending != backwards else ""
        return [sign + name for name in self.names]

    def beyond(self, rows: QuerySet[Any], place: Place, backwards: bool) -> QuerySet[Any]:
        """Of the rows those which stand after a place, or before it."""
        return self._compared(rows, place, "<" if self.is_descending != backwards else ">")

    def until(self, rows: QuerySet[Any], place: Place, backwards: bool) -> QuerySet[Any]:
        """Of the rows those up to a place, and at it; seen from behind if ``backwards``."""
        return self._compared(rows, place, ">=" if self.is_descending != backwards else "<=")

    def _compared(self, rows: QuerySet[Any], place: Place, sign: str) -> QuerySet[Any]:
        if dialect_of(connections[rows.db]).compares_rows:
            return rows.filter(Holds(Beyond(self.names, place, sign), rhs=True))
        *outer, (name, value) = zip(self.names, place, strict=True)
        found = Q(**{f"{name}__{LOOKUPS[sign]}": value})
        for name, value in reversed(outer):
            beyond = Q(**{f"{name}__{LOOKUPS[sign[0]]}": value})
            found = beyond | (Q(**{name: value}) & found)
        return rows.filter(found)

    def place_of(self, row: Any) -> Place:
        return tuple(getattr(row, name) for name in self.names)


LOOKUPS = {"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}

BY_KEY = Order(("id",), is_descending=True)


def order_of(model: type[Model], ordering: Sequence[Any]) -> Order | None:
    """The order of these names; None where a list cannot be walked along it by places."""
    if not all(isinstance(name, str) for name in ordering):
        return None
    key = model._meta.pk.name
    names = tuple(key if n.lstrip("-") == "pk" else n.lstrip("-") for n in ordering)
    signs = {name.startswith("-") for name in ordering}
    whole = names[: names.index(key) + 1] if key in names else ()
    if len(signs) != 1 or not all(_has_place(model, name) for name in whole):
        return None
    return Order(whole, signs.pop()) if whole else None


def _has_place(model: type[Model], name: str) -> bool:
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return False
    # No row stands before or after one without a value; due jobs have a time.
    return isinstance(field, Field) and (not field.null or name == "retry_at")


def text_of(place: Place) -> str:
    """A place for an address."""
    return json.dumps([value if isinstance(value, int) else str(value) for value in place])


def place_in(model: type[Model], order: Order, text: str) -> Place | None:
    """The place that an address names; ``ValueError`` where it is none, None = the list's end."""
    try:
        values = json.loads(text)
    except RecursionError:
        raise ValueError(text) from None
    if values == []:
        return None
    if not isinstance(values, list) or len(values) != len(order.names):
        raise ValueError(text)
    fields = [model._meta.get_field(name) for name in order.names]
    return tuple(_value(f, value) for f, value in zip(fields, values, strict=True))


def _value(field: Any, value: Any) -> Any:
    if not isinstance(value, int | str) or "\0" in str(value):
        raise ValueError(value)
    try:
        found = field.to_python(str(value).encode().decode())
    except (ValidationError, OverflowError):
        raise ValueError(value) from None
    if isinstance(found, int) and abs(found) > BIGGEST:
        raise ValueError(value)
    return found


class Holds(Lookup):
    """A condition as it is. Django 6.1 compares any other expression with true on SQLite and MySQL,
    and then they use no index."""

    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return compiler.compile(self.lhs)  # type: ignore[no-any-return]


class Beyond(Expression):
    """Whether a row stands before or after a place in the order of several columns."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, names: Sequence[str], place: Place, sign: str) -> None:
        super().__init__()
        self.columns: list[Any] = [F(name) for name in names]
        self.place, self.sign = place, sign

    def get_source_expressions(self) -> list[Any]:
        return self.columns

    def set_source_expressions(self, exprs: Sequence[Any]) -> None:
        self.columns = list(exprs)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:  # type: ignore[override]
        names = ", ".join(compiler.compile(column)[0] for column in self.columns)
        values = [
            _prepared(column.output_field, value, connection)
            for column, value in zip(self.columns, self.place, strict=True)
        ]
        places = ", ".join(map(dialect_of(connection).placeholder, values))
        return f"({names}) {self.sign} ({places})", values


def _prepared(field: Any, value: Any, connection: Any) -> Any:
    # What a hand wrote into a column of another type is compared as it is.
    is_odd = isinstance(value, str) and not isinstance(field, CharField)
    return value if is_odd else field.get_db_prep_value(value, connection)
