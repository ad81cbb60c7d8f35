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
NUMBERS = ("priority", "attempts", "crashes", "time_to_run")
NUMBER = {int, type(None)}


class Builder:
    """Makes instances of one model on one connection."""

    def __init__(self, model: type[Any], fetched: Sequence[models.Field[Any, Any]]) -> None:
        self.model = model
        self.names = [field.attname for field in fetched]
        self.numbers = [self.names.index(name) for name in NUMBERS]
        self.time_to_run = self.names.index("time_to_run")
        self.is_quiet = is_quiet(model, self.names)

    def build(self, table: Table, rows: Iterable[Row], queue: str, owner: str) -> list[Any]:
        """The jobs of ``rows``: ``columns``, then whether they have expired."""
        known = {"queue": queue, "status": Status.CLAIMED, "owner": owner, "claim_owner": owner}
        make = self._by_hand if self.is_quiet and not is_heard(self.model) else self._by_django
        jobs = []
        for row in rows:
            values = self._values(table, row)
            job = make(values, table.connection.alias)
            inside = job.__dict__
            inside.update(known)
            inside["claim_key"] = row[table.pk_position]
            if row[-1]:
                inside["has_expired"] = True
            jobs.append(job)
        return jobs

    def _values(self, table: Table, row: Row) -> list[Any]:
        values = list(row)
        del values[-1]
        if not table.dialect.has_typed_columns:
            self._check_numbers(row)
        seconds = row[self.time_to_run]
        if seconds is not None and not 1 <= seconds <= MAX_SECONDS:
            values[self.time_to_run] = None  # as in claim_end
        for position, converters, expression in table.converters:
            for convert in converters:
                values[position] = convert(values[position], expression, table.connection)
        return values

    def _check_numbers(self, row: Row) -> None:
        for position in self.numbers:
            if type(row[position]) not in NUMBER:
                raise TypeError(f"{self.names[position]} is not a number: {row[position]!r}")

    def _by_hand(self, values: list[Any], alias: str) -> Any:
        job = object.__new__(self.model)
        state = ModelState()
        state.adding = False
        state.db = alias
        job.__dict__.update(zip(self.names, values, strict=True), _state=state)
        return job

    def _by_django(self, values: list[Any], alias: str) -> Any:
        return self.model.from_db(alias, self.names, values)


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
