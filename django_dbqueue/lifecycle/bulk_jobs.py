"""nothing -> ready or delayed, many instances at once, which get the keys that the database gives.

Django's own ``bulk_create`` prepares every column of every row; most are the same in all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models.expressions import DatabaseDefault

from ..dialects.types import Inserted
from ..fields import DbNow
from .bulk import FIXED, ROWS_MAX, is_simple, literal
from .enqueue import EMPTY
from .table import Table

# Where two values of one of these types are equal, the database is told the same.
EQUALS = (int, str, bytes)


class _NotOurs(Exception):
    """Only Django's compiler reads such a value."""


class _Column(NamedTuple):
    """What stands for it in each row, and the values that are to be filled in, one a row."""

    inserted: Inserted
    values: Sequence[Any] | None = None


def insert_jobs(table: Table, jobs: Sequence[Any], batch_size: int | None) -> bool:
    """Insert prepared jobs, all or none. False, and nothing is written, where only Django's
    ``bulk_create`` knows how."""
    if not jobs or not _is_ours(table, jobs) or (batch_size is not None and batch_size < 1):
        return False
    try:
        columns = [one for field in _fields(table) if (one := _column(table, field, jobs))]
    except _NotOurs:
        return False
    keys = _write(table, columns, len(jobs), batch_size or ROWS_MAX)
    attribute = table.model._meta.pk.attname
    for job, key in zip(jobs, keys, strict=True):
        setattr(job, attribute, key)
        job._state.adding, job._state.db = False, table.connection.alias
    return True


def _is_ours(table: Table, jobs: Sequence[Any]) -> bool:
    """Whether the database numbers them all, and fields write what they are given."""
    meta = table.model._meta
    if not (table.is_plain and meta.auto_field and is_simple(table.model)):
        return False
    related = [field for field in meta.concrete_fields if field.is_relation]
    return all(job.pk is None and not any(one.is_cached(job) for one in related) for job in jobs)


def _fields(table: Table) -> list[Any]:
    meta = table.model._meta
    return [field for field in meta.concrete_fields if field is not meta.auto_field]


def _column(table: Table, field: Any, jobs: Sequence[Any]) -> _Column | None:
    """None: the database fills it in by itself."""
    if field.name in FIXED:
        return _Column(table.inserted(field, FIXED[field.name]))
    given = list(map(attrgetter(field.attname), jobs))
    kinds = set(map(type, given))
    if kinds == {DatabaseDefault} or (kinds == {NoneType} and field.name in EMPTY):
        return None
    if DbNow in kinds and kinds <= {DbNow, NoneType}:
        seconds = [None if moment is None else float(moment.plus) for moment in given]
        return _Column(table.moment_of(field), seconds)
    if any(hasattr(kind, "resolve_expression") for kind in kinds):
        raise _NotOurs
    if not _is_one(given, kinds):
        if NoneType in kinds and field.column in table.binary:
            raise _NotOurs  # it stands there in another way than bytes do
        prepared = [field.get_db_prep_save(value, table.connection) for value in given]
        return _Column(table.inserted(field), prepared)
    value = field.get_db_prep_save(given[0], table.connection)
    text = "NULL" if value is None else literal(value)
    if text:
        return _Column(table.inserted(field, text))
    return _Column(table.inserted(field), [value] * len(given))


def _is_one(given: Sequence[Any], kinds: Collection[type]) -> bool:
    """Whether all rows are given the same: of floats, say, and lists, that is not known."""
    first = given[0]
    is_known = len(kinds) == 1 and (first is None or first == [] or isinstance(first, EQUALS))
    return is_known and given.count(first) == len(given)


def _write(table: Table, columns: Sequence[_Column], count: int, batch_size: int) -> list[Any]:
    """The keys of the new rows, in their order."""
    connection, dialect = table.connection, table.dialect
    filled = [one.values for one in columns if one.values is not None]
    rows = list(zip(*filled, strict=True)) if filled else [()] * count
    size = max(1, min(batch_size, ROWS_MAX, connection.ops.bulk_batch_size(filled, rows)))
    inserted = [one.inserted for one in columns]
    keys: list[Any] = []
    with transaction.atomic(using=connection.alias, savepoint=False):
        for start in range(0, count, size):
            some = rows[start : start + size]
            sql, params = dialect.insert_of(table.name, inserted, some)
            with connection.cursor() as cursor:
                keys += dialect.insert_many(cursor, sql, params, table.pk, len(some))
    return keys
