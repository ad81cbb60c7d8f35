"""What is wrong with a schedule, said in the language of the one who reads it."""

from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.utils.translation import override

from ..guard import message_of


def wrong(column: str, text: Any, /, **values: Any) -> ValidationError:
    """With a column; ``text`` is translated once it is read, with the values in it."""
    return ValidationError({column: ValidationError(text, params=values)})


def problems_of(error: Exception) -> str:
    """In English, as it is stored and logged."""
    with override(None):
        return problems_in_words(error)


def problems_in_words(error: Exception) -> str:
    """What is wrong, each problem with the name of its field."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {message_of(error)}"
    if not hasattr(error, "error_dict"):
        return " ".join(error.messages)
    found = []
    for name, messages in error.message_dict.items():
        is_said = name == NON_FIELD_ERRORS
        found += [one if is_said or one.startswith(name) else f"{name}: {one}" for one in messages]
    return "; ".join(one.removesuffix(".") for one in found)
