"""What people do, written into the admin's log: one entry for each action, however many rows it
changed."""

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model
from django.utils.translation import override

from ..guard import capture

CHANGED, DELETED = 2, 3  # as the log's ``action_flag`` has it
KEYS_NAMED_MAX = 20
# By which an entry is read again: in what people write there is neither.
DATABASE, FILTERS = "; database: ", "; filters: "


def record(
    user: Any,
    model: type[Model],
    rows: Sequence[Model],
    said: str,
    *,
    number: int | None = None,
    filters: str = "",
    flag: int = CHANGED,
    using: str | None = None,
) -> Any:
    """``number`` is that of all rows, where ``rows`` are only the first of them; one row alone has
    the entry in its own history. ``using``: their database, where there may be none of them. The
    entry; None where there was no row, or is no admin."""
    number = len(rows) if number is None else number
    if not number or not apps.is_installed("django.contrib.admin"):
        return None
    one = rows[0] if rows and number == 1 else None
    keys = "" if one or not rows else named(rows, number)
    using = rows[0]._state.db if rows else using
    text = f"{said}; rows: {number:,}{keys}"
    with override(None):  # the log is English in every language
        about = f"{number:,} {model._meta.verbose_name_plural}" if one is None else _words(one)
    key = None if one is None else one.pk
    return record_of(user, model, about, text, flag, key, using=using, filters=filters)


def _words(row: Model) -> str:
    """Its own, unless they are of columns that what stands in for a row that may be gone lacks."""
    with capture():
        return str(row)
    return f"{row._meta.verbose_name} {row.pk}"


def named(rows: Sequence[Model], number: int) -> str:
    keys = [str(row.pk) for row in rows[:KEYS_NAMED_MAX]]
    return f" ({', '.join(keys)}{', ..' if number > len(keys) else ''})"


def message(said: str, using: str | None = None, filters: str = "") -> str:
    """What an entry says, with the database of its rows: the log has no column for it."""
    place = "" if using in {None, DEFAULT_DB_ALIAS} else f"{DATABASE}{using}"
    return f"{_unmarked(said)}{place}{FILTERS}{_unmarked(filters) or 'none'}"


def _unmarked(text: str) -> str:
    for mark in (DATABASE, FILTERS):
        text = text.replace(mark, mark.replace(";", ","))
    return text


def record_of(
    user: Any,
    model: type[Model],
    about: str,
    said: str,
    flag: int = CHANGED,
    key: Any = None,
    *,
    using: str | None = None,
    filters: str = "",
) -> Any:
    """An entry about a row, or about many; it is given back, to be written once more."""
    kinds: Any = apps.get_model("contenttypes", "ContentType")._default_manager
    log: Any = apps.get_model("admin", "LogEntry")._default_manager
    return log.create(
        user_id=user,
        content_type=kinds.get_for_model(model, for_concrete_model=False),
        object_id=key,
        object_repr=about.strip()[:200],
        action_flag=flag,
        change_message=message(said, using, filters),
    )
