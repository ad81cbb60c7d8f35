"""What an example job holds in the columns of its own, as far as their types tell."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from ..lifecycle.table import Table
from ..models import Job

SAMPLE = 50  # related rows to choose among


class CannotFill(ValueError):
    """A column for which no example can be thought of; says which, and of what type."""


def guess(table: Table, number: int) -> dict[str, Any]:
    """The own columns of a table's nth example, as far as their types tell."""
    ours = {field.name for field in Job._meta.fields}
    return {
        field.name: _guessed(field, number, table.connection.alias)
        for field in table.model._meta.concrete_fields
        if field.name not in ours and not _fills_itself(field)
    }


def _fills_itself(field: Any) -> bool:
    return field.primary_key or field.generated or field.has_db_default() or _has_default(field)


def _has_default(field: Any) -> bool:
    return bool(field.null or field.has_default() or (field.blank and field.empty_strings_allowed))


def _guessed(field: Any, number: int, alias: str) -> Any:
    if field.choices:
        return field.flatchoices[number % len(field.flatchoices)][0]
    if field.is_relation:
        return _related(field, number, alias)
    for kind, make in GUESSES:
        if isinstance(field, kind):
            return make(field, number)
    raise CannotFill(f"no example for its column {field.name}, a {type(field).__name__}")


def _related(field: Any, number: int, alias: str) -> Any:
    """One of the rows that are there."""
    other = field.remote_field.model
    others = other._base_manager.using(alias).order_by("pk")[:SAMPLE]
    if not others:
        raise CannotFill(
            f"its column {field.name} needs a row of {field.remote_field.model._meta.label}"
        )
    return others[number % len(others)]


def _text(field: Any, number: int) -> str:
    return f"{field.verbose_name} {number}"[: field.max_length]


# The narrower type first.
GUESSES: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (models.EmailField, lambda _, number: f"customer{number}@shop.example"),
    (models.URLField, lambda _, number: f"https://shop.example/{number}"),
    (models.SlugField, lambda _, number: f"example-{number}"),
    ((models.CharField, models.TextField), _text),
    (models.BooleanField, lambda _, number: number % 2 == 0),
    ((models.IntegerField, models.FloatField), lambda _, number: number % 100),
    (models.DecimalField, lambda _, number: number % 10),
    (models.UUIDField, lambda *_: uuid.uuid4()),
    (models.DateTimeField, lambda *_: timezone.now()),
    (models.DateField, lambda *_: timezone.now().date()),
    (models.DurationField, lambda _, number: timedelta(seconds=number)),
    (
        models.JSONField,
        lambda _, number: {"example": number, "customer": "Ada", "token": "t0p-s3cret"},
    ),
)
