"""Emails by an address, and bringing the rows by which they are found up to date."""

from collections.abc import Callable, Iterator
from typing import Any

from django.db.models import QuerySet

from ..lifecycle.side_rows import gone
from ..lifecycle.table import Table
from .models import Recipient
from .models.recipient import RecipientRows, digest_of, digests
from .rows import PLACES, mail_table, windows

LOOKED_AT = 20  # of the oldest emails of each table
KEYS_AT_ONCE = 500


def keys_to(address: str, using: str, most: int) -> list[int]:
    """The keys of the newest emails to an address, in the queue or archived; at most so many."""
    rows = Recipient.objects.using(using).filter(address=digest_of(address.strip()))
    return list(rows.order_by("-address", "-email").values_list("email", flat=True)[:most])


def is_whole(model: Any, using: str) -> bool:
    """Whether the oldest emails of a table are found, too: those from before there were the rows
    are not, until ``index_recipients`` has run."""
    oldest = model._base_manager.using(using).only("pk", "recipients").order_by("pk")
    return not _missing(list(oldest[:LOOKED_AT]), using)


def index_all(say: Callable[[int, int], None]) -> tuple[int, int]:
    """Write the rows that are missing, and delete those whose emails are gone; how many emails
    of each. In parts, the newest emails first, each a short transaction: it may be stopped, and run
    again at any time.

    ``say`` is told after each part how many so far.
    """
    table, written, deleted = mail_table(), 0, 0
    for model in PLACES:
        rows: QuerySet[Any] = model._base_manager.using(table.connection.alias)
        # The oldest last: at these ``is_whole`` looks.
        for window in windows(rows, newest_first=True):
            written += _write(table, list(window.only("pk", "recipients")))
            say(written, deleted)
    for keys in _keys_of_rows(table):
        orphans = gone(table, keys)
        RecipientRows().delete(table, orphans)
        deleted += len(orphans)
        say(written, deleted)
    return written, deleted


def _write(table: Table, emails: list[Any]) -> int:
    missing = _missing(emails, table.connection.alias)
    RecipientRows().write(table, [(email.pk, email) for email in missing])
    # What was pruned since it was read.
    RecipientRows().delete(table, gone(table, [email.pk for email in missing]))
    return len(missing)


def _missing(emails: list[Any], using: str) -> list[Any]:
    known: set[int] = set()
    for start in range(0, len(emails), KEYS_AT_ONCE):
        keys = [email.pk for email in emails[start : start + KEYS_AT_ONCE]]
        rows = Recipient.objects.using(using).filter(email__in=keys).order_by()
        known.update(rows.values_list("email", flat=True).distinct())
    return [one for one in emails if one.pk not in known and digests(one)]


def _keys_of_rows(table: Table) -> Iterator[list[int]]:
    rows = Recipient.objects.using(table.connection.alias).order_by("email")
    last: int | None = None
    while True:
        after = rows if last is None else rows.filter(email__gt=last)
        keys = list(after.values_list("email", flat=True).distinct()[:KEYS_AT_ONCE])
        if not keys:
            return
        yield keys
        last = keys[-1]
