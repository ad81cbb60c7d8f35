"""JSON that every database keeps as it is: NUL, numbers of any length, the order of keys."""

import json
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from ..exceptions import shown
from .compat import normalize_json

EMPTY = {"[]": list, "{}": dict}


def to_text(value: Any, name: str, most: int) -> str:
    """The JSON of a value. ``TypeError`` or ``ValueError`` names what cannot be stored, the latter
    also where it has more than ``most`` bytes."""
    text = to_json(value, name)
    # Only ASCII, so that characters are bytes.
    if len(text) > most:
        raise ValueError(
            f"{name} cannot be stored: {len(text):,} bytes of JSON; the limit is {most:,}"
        )
    return text


def to_json(value: Any, name: str) -> str:
    """The same of any length."""
    try:
        return json.dumps(normalize_json(value), allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError(f"{name} cannot be stored as JSON: it nests too deep") from None
    except TypeError as error:
        raise TypeError(f"{name} cannot be stored as JSON: {error}") from error
    except ValueError as error:
        raise ValueError(f"{name} cannot be stored as JSON: {error}") from error


class JSONText(models.TextField):  # type: ignore[type-arg]
    """A column of text; in Python the value. What is no JSON, by hand, reads as that text."""

    holds_json = True  # so that the admin does not look for parts of it

    def from_db_value(self, value: Any, expression: Any, connection: BaseDatabaseWrapper) -> Any:
        if value is None:
            return None
        if value in EMPTY:
            return EMPTY[value]()
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def to_python(self, value: Any) -> Any:
        """Of a form's text."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValidationError(f"{self.name} must be JSON, not {shown(value)}") from None

    def value_to_string(self, obj: Any) -> str:
        return json.dumps(self.value_from_object(obj))
