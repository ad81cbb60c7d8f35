"""What an example job holds in the columns of its own, as far as their types tell."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone

from ..lifecycle.table import Table
from ..models import Job

RELATED_ROWS_MAX = 50  # to choose among


class CannotFill(ValueError):
    """A column for which no example can be thought of; says which, and of what type."""


def guess(table: Table, number: int) -> dict[str, Any]:
    """The own columns of a table's nth example, as far as their types tell."""
    ours = {field.name for field in Job._meta.fields}
    found = {}
    for field in table.model._meta.concrete_fields:
        is_filled = field.primary_key or field.generated or field.has_db_default()
        may_be_empty = field.null or (field.blank and field.empty_strings_allowed)
        if field.name not in ours and not (is_filled or field.has_default() or may_be_empty):
            found[field.name] = _guessed(field, number, table.connection.alias)
    return found


def _guessed(field: Any, number: int, alias: str) -> Any:
    if field.choices:
        return field.flatchoices[number % len(field.flatchoices)][0]
    if field.is_relation:
        other = field.remote_field.model
        others = other._base_manager.using(alias).order_by("pk")[:RELATED_ROWS_MAX]
        if not others:
            raise CannotFill(f"its column {field.name} needs a row of {other._meta.label}")
        return others[number % len(others)]
    for kind, make in GUESSES:
        if isinstance(field, kind):
            return make(field, number)
    raise CannotFill(f"no example for its column {field.name}, a {type(field).__name__}")


# The narrower type first.
GUESSES: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (models.EmailField, lambda _, number: f"customer{number}@shop.example"),
    (models.URLField, lambda _, number: f"https://shop.example/{number}"),
    (models.SlugField, lambda _, number: f"example-{number}"),
    (
        (models.CharField, models.TextField),
        lambda field, number: f"{field.verbose_name} {number}"[: field.max_length],
    ),
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
