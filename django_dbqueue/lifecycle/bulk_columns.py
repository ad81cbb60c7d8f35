"""A column of many new rows: what is the same in all of them stands in the statement once, and the
rest is prepared for the driver in one go.

Django prepares value by value, through four methods of a field that mostly change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from types import NoneType
from typing import Any, NamedTuple

from django.db import models, transaction
from django.db.models.expressions import DatabaseDefault

from ..dialects.types import Inserted
from ..fields import DbNow, NameField, check_name
from .enqueue import CHECKS, EMPTY
from .table import Table

ROWS_MAX = 1000  # of one statement
BIGINT_MAX = 2**63 - 1
EXACT_MAX = 2**53  # whole floats up to it are read from digits as they are
# No quote, backslash or percent sign: the same in the text of every database.
WORD = re.compile(r"[A-Za-z0-9_\[\]]*")
# Where two values of one of these types are equal, the database is told the same.
EQUALS = (int, str, bytes)
# Not bool: True equals 1, and is checked otherwise.
COUNTED_ONCE = {int, str, NoneType}
RELATIONS = {models.ForeignKey, models.OneToOneField}
WAYS = ("get_db_prep_save", "get_db_prep_value", "get_prep_value", "to_python")


class NotOurs(TypeError):
    """Only Django's compiler reads such a value."""


class Column(NamedTuple):
    """What stands for it in each row, and the values that are to be filled in, one a row."""

    inserted: Inserted
    values: Sequence[Any] | None = None


def column(table: Table, field: Any, given: Sequence[Any]) -> Column | None:
    """Of what is given for each row; None: the database fills it in by itself."""
    kinds = set(map(type, given))
    if kinds == {DatabaseDefault} or (kinds == {NoneType} and field.name in EMPTY):
        return None
    if DbNow in kinds and kinds <= {DbNow, NoneType}:
        seconds = [None if moment is None else float(moment.plus) for moment in given]
        return Column(table.moment_of(field), seconds)
    if any(hasattr(kind, "resolve_expression") for kind in kinds):
        raise NotOurs
    if not _is_one(given, kinds):
        if NoneType in kinds and field.column in table.binary:
            raise NotOurs  # it stands there in another way than bytes do
        return Column(table.inserted(field), prepared(table, field, given, kinds))
    value = field.get_db_prep_save(given[0], table.connection)
    text = "NULL" if value is None else literal(value)
    if text:
        return Column(table.inserted(field, text))
    return Column(table.inserted(field), [value] * len(given))


def _is_one(given: Sequence[Any], kinds: Set[type]) -> bool:
    """Whether all rows are given the same: of lists, say, that is not known."""
    first = given[0]
    if type(first) is float:  # of which two may be equal, and not the same: 0.0 and -0.0
        return len(set(map(id, given))) == 1
    is_known = len(kinds) == 1 and (first is None or first == [] or isinstance(first, EQUALS))
    return is_known and given.count(first) == len(given)


def literal(value: Any) -> str:
    """How a number or a plain word stands in a statement; '' of all others."""
    if isinstance(value, int) and not isinstance(value, bool):
        # A larger one SQLite would take as a float.
        return f"{value:d}" if abs(value) <= BIGINT_MAX else ""
    if type(value) is float:
        is_exact = value.is_integer() and abs(value) < EXACT_MAX and str(value) != "-0.0"
        return f"{value:.1f}" if is_exact else ""
    return f"'{value}'" if type(value) is str and WORD.fullmatch(value) else ""


def prepared(table: Table, field: Any, given: Sequence[Any], kinds: Set[type]) -> Sequence[Any]:
    """What the driver gets for each value."""
    own = field
    while type(own) in RELATIONS:
        own = own.target_field
    if not (as_they_are := AS_THEY_ARE.get(_ways(type(own)))) or not as_they_are >= kinds:
        return [field.get_db_prep_save(value, table.connection) for value in given]
    if isinstance(own, models.AutoField | models.BigAutoField) and 0 in given:
        return [field.get_db_prep_save(value, table.connection) for value in given]
    if isinstance(own, NameField) and field.name not in CHECKS:
        check_all(partial(_check_name, field.name), given)
    return given


def _check_name(name: str, value: str | None) -> None:
    if value is not None:
        check_name(value, name)


def check_all(check: Callable[[Any], None], given: Iterable[Any]) -> None:
    """Each value once; it raises for the first one that it refuses."""
    values = list(given)
    for value in dict.fromkeys(values) if set(map(type, values)) <= COUNTED_ONCE else values:
        check(value)


def _ways(kind: type[Any]) -> tuple[Any, ...]:
    return tuple(getattr(kind, way, None) for way in WAYS)


# The types that a field hands on as they are, by how it prepares values: its subclasses mostly do
# the same. What Django makes of an int for PostgreSQL says its size, which the column knows.
AS_THEY_ARE: dict[tuple[Any, ...], set[type]] = {
    **{_ways(kind): {str, NoneType} for kind in (models.CharField, models.TextField, NameField)},
    **{_ways(kind): {int, NoneType} for kind in (models.IntegerField, models.AutoField)},
    _ways(models.FloatField): {float, NoneType},
}


def insert(
    table: Table, columns: Sequence[Column], count: int, batch_size: int, has_keys: bool = False
) -> list[Any]:
    """Insert so many rows, all or none. ``has_keys``: the keys that the database has numbered them
    with, in their order."""
    connection, dialect = table.connection, table.dialect
    inserted = [one.inserted for one in columns]
    filled = [one.values for one in columns if one.values is not None]
    rows = list(zip(*filled, strict=True)) if filled else [()] * count
    size = max(1, min(batch_size, ROWS_MAX, connection.ops.bulk_batch_size(filled, rows)))
    keys: list[Any] = []
    with transaction.atomic(using=connection.alias, savepoint=False):
        for start in range(0, count, size):
            some = rows[start : start + size]
            sql, params = dialect.insert_of(table.name, inserted, some)
            with connection.cursor() as cursor:
                if has_keys:
                    keys += dialect.insert_many(cursor, sql, params, table.pk, len(some))
                else:
                    cursor.execute(sql, params)
    return keys
