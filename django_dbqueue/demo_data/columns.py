"""What an example job holds in the columns of its own, as far as their types tell."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _

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
            text = _("its column %(column)s needs a row of %(table)s")
            raise CannotFill(text % {"column": field.name, "table": other._meta.label})
        return others[number % len(others)]
    for kind, make in GUESSES:
        if isinstance(field, kind):
            return make(field, number)
    text = _("no example for its column %(column)s, a %(type)s")
    raise CannotFill(text % {"column": field.name, "type": type(field).__name__})


# The narrower type first.
GUESSES: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    (models.EmailField, lambda _field, number: f"customer{number}@shop.example"),
    (models.URLField, lambda _field, number: f"https://shop.example/{number}"),
    (models.SlugField, lambda _field, number: f"example-{number}"),
    (
        (models.CharField, models.TextField),
        lambda field, number: f"{field.verbose_name} {number}"[: field.max_length],
    ),
    (models.BooleanField, lambda _field, number: number % 2 == 0),
    ((models.IntegerField, models.FloatField), lambda _field, number: number % 100),
    (models.DecimalField, lambda _field, number: number % 10),
    (models.UUIDField, lambda *_given: uuid.uuid4()),
    (models.DateTimeField, lambda *_given: timezone.now()),
    (models.DateField, lambda *_given: timezone.now().date()),
    (models.DurationField, lambda _field, number: timedelta(seconds=number)),
    (
        models.JSONField,
        lambda _field, number: {"example": number, "customer": "Ada", "token": "t0p-s3cret"},
    ),
)
