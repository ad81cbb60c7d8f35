"""The entry of a bulk action in the admin's log, in the name of the person who asked for it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.db import models, transaction

from ..lifecycle.moving import Moved
from ..operate.recording import CHANGED, DELETED, record


def write(row: Any, model: type[models.Model], verb: Any) -> None:
    """One, which tells of all that was changed so far: it takes the place of the one before."""
    number = sum(row.counts.get(name, 0) for name in ("changed", "skipped"))
    if not number or not apps.is_installed("django.contrib.admin") or not _is_there(row.asked_by):
        return
    log: Any = apps.get_model("admin", "LogEntry")._default_manager
    own = type(row)._base_manager.using(row._state.db).filter(pk=row.pk)
    with transaction.atomic(using=row._state.db):
        log.filter(pk=row.log_entry or None).delete()
        entry = record(
            row.asked_by,
            model,
            [_named(model, row.database, key) for key in row.first_keys],
            f"{verb.title}: {result_of(row.counts)}; {row}",
            number=number,
            filters=urlencode(flat(row.choice)),
            flag=DELETED if verb.is_final else CHANGED,
        )
        row.log_entry = str(entry.pk)
        own.update(log_entry=row.log_entry)


def result_of(counts: Mapping[str, int]) -> Moved:
    names = ("changed", "skipped", "twins", "no_room", "barred")
    return Moved(*(counts.get(name, 0) for name in names))


def flat(choice: Mapping[str, Any]) -> dict[str, str]:
    """As a list's address has it: ``failed_at_from=…``."""
    found: dict[str, str] = {}
    for name, value in sorted(choice.items()):  # a database may keep no order
        if isinstance(value, Mapping):
            found |= {f"{name}_{word}": str(one) for word, one in value.items()}
        else:
            found[name] = str(value)
    return found


def _is_there(user: str) -> bool:
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs the app

    users: Any = get_user_model()._default_manager
    return bool(user) and bool(users.filter(pk=user).exists())


def _named(model: type[models.Model], alias: str, key: Any) -> models.Model:
    """In place of a row that may be gone."""
    row = model(pk=key)
    row._state.db = alias
    return row
