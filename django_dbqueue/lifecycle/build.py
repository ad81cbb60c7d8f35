"""Instances of claimed rows, at the least cost: for a job that does little, this is the dearest
part of its life."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.base import ModelState
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.query_utils import DeferredAttribute
from django.db.models.signals import post_init, pre_init

from ..dialects.base import Row
from ..states import Status
from .policy import MAX_SECONDS

if TYPE_CHECKING:
    from .table import Table

Converter = Callable[[Any, Any, BaseDatabaseWrapper], Any]
Conversion = tuple[int, tuple[Converter, ...], Any]

# What assigns an attribute and does nothing besides.
QUIET = {DeferredAttribute, ForeignKeyDeferredAttribute}
NUMBERS = ("priority", "attempts", "crashes", "losses", "time_to_run")
NUMBER = {int, type(None)}


class Builder:
    """Makes instances of one model on one connection."""

    def __init__(self, model: type[Any], fetched: Sequence[models.Field[Any, Any]]) -> None:
        self.model = model
        self.names = [field.attname for field in fetched]
        self.numbers = [self.names.index(name) for name in NUMBERS]
        self.time_to_run = self.names.index("time_to_run")
        self.is_quiet = is_quiet(model, self.names)

    def build(self, table: Table, rows: Sequence[Row], queue: str, owner: str) -> list[Any]:
        """The jobs of ``rows``: ``columns``, then whether they have expired."""
        if not table.dialect.has_typed_columns:
            self._check_numbers(rows)
        known = {"queue": queue, "status": Status.CLAIMED, "owner": owner, "claim_owner": owner}
        make = self._by_hand if self.is_quiet and not is_heard(self.model) else self._by_django
        alias = table.connection.alias
        jobs = []
        for row in rows:
            job = make(self._read(table, row), known, alias)
            job.__dict__["claim_key"] = row[table.pk_position]
            if row[-1]:
                job.__dict__["has_expired"] = True
            jobs.append(job)
        return jobs

    def _check_numbers(self, rows: Sequence[Row]) -> None:
        for position in self.numbers:
            odd = {type(row[position]) for row in rows} - NUMBER
            if odd:
                raise TypeError(f"{self.names[position]} is not a number, but {odd}")

    def _read(self, table: Table, row: Row) -> Sequence[Any]:
        seconds = row[self.time_to_run]
        is_usable = seconds is None or 1 <= seconds <= MAX_SECONDS
        if is_usable and not table.converters:
            return row
        values = list(row)
        if not is_usable:
            values[self.time_to_run] = None  # as in claim_end
        for position, converters, expression in table.converters:
            for convert in converters:
                values[position] = convert(values[position], expression, table.connection)
        return values

    def _by_hand(self, values: Sequence[Any], known: dict[str, Any], alias: str) -> Any:
        state = ModelState()
        state.adding = False
        state.db = alias
        job = object.__new__(self.model)
        # The last value has no name.
        job.__dict__ = dict(zip(self.names, values, strict=False), _state=state, **known)
        return job

    def _by_django(self, values: Sequence[Any], known: dict[str, Any], alias: str) -> Any:
        job = self.model.from_db(alias, self.names, values[:-1])
        job.__dict__.update(known)
        return job


def is_quiet(model: type[Any], names: Iterable[str]) -> bool:
    """Whether nothing of the project's happens when Django makes an instance of a row."""
    ways = ("__init__", "__new__", "__setattr__")
    return (
        all(getattr(model, way) is getattr(models.Model, way) for way in ways)
        and model.from_db.__func__ is models.Model.from_db.__func__  # type: ignore[attr-defined]
        and all(type(getattr_static(model, name)) in QUIET for name in names)
    )


def is_heard(model: type[Any]) -> bool:
    """Whether somebody wants to be told of each instance; that may change at any time."""
    return pre_init.has_listeners(model) or post_init.has_listeners(model)


def conversions(
    fetched: Sequence[models.Field[Any, Any]], connection: BaseDatabaseWrapper
) -> Iterable[Conversion]:
    """Position, converters and expression of each field whose values need some."""
    for position, field in enumerate(fetched):
        expression = field.get_col(field.model._meta.db_table)
        converters = [
            *connection.ops.get_db_converters(expression),
            *field.get_db_converters(connection),
        ]
        if converters:
            yield position, tuple(converters), expression
