"""What people do, written into the admin's log: one entry for each action, however many rows it
changed."""

from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS
from django.db.models import Model
from django.utils.translation import override

CHANGED, DELETED = 2, 3  # as the log's ``action_flag`` has it
KEYS_NAMED_MAX = 20
DATABASE = "; database: "


def record(
    user: Any,
    model: type[Model],
    rows: Sequence[Model],
    said: str,
    *,
    number: int | None = None,
    filters: str = "",
    flag: int = CHANGED,
) -> Any:
    """``number`` is that of all rows, where ``rows`` are only the first of them; one row alone has
    the entry in its own history. The entry; None where there was no row, or is no admin."""
    number = len(rows) if number is None else number
    if not number or not apps.is_installed("django.contrib.admin"):
        return None
    one = rows[0] if rows and number == 1 else None
    keys = "" if one or not rows else named(rows, number)
    place = on(rows[0]._state.db) if rows else ""
    text = f"{said}; rows: {number:,}{keys}{place}; filters: {filters or 'none'}"
    with override(None):  # the log is English in every language
        about = f"{number:,} {model._meta.verbose_name_plural}" if one is None else str(one)
    return record_of(user, model, about, text, flag, None if one is None else one.pk)


def named(rows: Sequence[Model], number: int) -> str:
    keys = [str(row.pk) for row in rows[:KEYS_NAMED_MAX]]
    return f" ({', '.join(keys)}{', ..' if number > len(keys) else ''})"


def on(alias: str | None) -> str:
    """What an entry says of the database of its rows: the log has no column for it."""
    return "" if alias in {None, DEFAULT_DB_ALIAS} else f"{DATABASE}{alias}"


def record_of(
    user: Any, model: type[Model], about: str, text: str, flag: int = CHANGED, key: Any = None
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
        change_message=text,
    )
