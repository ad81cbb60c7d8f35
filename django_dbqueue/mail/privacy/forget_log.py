"""Taking one person out of what the admin's log says of mail."""

import re
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from django.apps import apps
from django.db import router

from ..rows import windows
from .forget import Count
from .person import Person

APP = "dbqueue_mail"
FILTERS = re.compile(r"(?<==)[^&=\s]+")
TEXTS = ("object_repr", "change_message")


def log_entries(person: Person, *, writes: bool) -> Count:
    """Of the models of mail only; who did what and when stays in the log."""
    count = Count()
    if not apps.is_installed("django.contrib.admin"):
        return count
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415  # needs the app

    database = router.db_for_write(LogEntry)
    entries = LogEntry.objects.using(database).filter(content_type__app_label=APP)
    for window in windows(entries):
        for entry in window.only(*TEXTS).order_by("pk"):
            changes = _changes(person, entry)
            count.changed += bool(changes)
            if writes and changes:
                entries.filter(pk=entry.pk).update(**changes)
    return count


def _changes(person: Person, entry: Any) -> dict[str, str]:
    found = {name: _without(person, getattr(entry, name)) for name in TEXTS}
    return {name: text for name, text in found.items() if text != getattr(entry, name)}


def _without(person: Person, text: str) -> str:
    # Filters of a list are logged as they stand in its address.
    return FILTERS.sub(lambda found: _out_of_filter(person, found[0]), person.out_of_text(text))


def _out_of_filter(person: Person, value: str) -> str:
    plain = unquote_plus(value)
    return quote_plus(person.out_of_text(plain)) if person.is_in(plain) else value
