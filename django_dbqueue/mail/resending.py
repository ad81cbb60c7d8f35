"""Sending many emails again: in chunks, each a transaction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import connections, router

from ..lifecycle.execute import in_transaction
from ..lifecycle.table import table_of
from .models import Email, EmailFields
from .models.email import again
from .models.queryset import resends_of
from .models.words import not_there
from .rows import inserts

AT_ONCE = 20  # whose messages are in memory


@dataclass
class Resent:
    """The ``old`` emails that are sent again by ``new`` ones, whose messages are read from the
    database when they are asked for; and why others are not."""

    old: list[Any] = field(default_factory=list)
    new: list[Email] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def resend_many(emails: Sequence[EmailFields]) -> Resent:
    """What ``resend()`` does, to emails of one table on one database."""
    if not emails:
        return Resent()
    database = router.db_for_write(Email, instance=emails[0])
    work = partial(_resend, emails, database)
    return in_transaction(connections[database], work)


def _resend(emails: Sequence[EmailFields], database: str) -> Resent:
    by_key, done = sorted(emails, key=lambda email: email.pk), Resent()
    for start in range(0, len(by_key), AT_ONCE):
        _resend_some(by_key[start : start + AT_ONCE], database, done)
    return done


def _resend_some(emails: Sequence[EmailFields], database: str, done: Resent) -> None:
    keys, new = [email.pk for email in emails], list[Email]()
    rows: Any = type(emails[0])._base_manager.using(database).select_for_update()
    # As they are now; nobody claims or resends any as well until the new ones are queued.
    held = {row.pk: row for row in rows.filter(pk__in=keys).order_by("pk")}
    resends = resends_of(table_of(Email, database), keys)
    for email in emails:
        old = held.get(email.pk)
        if old is None:
            done.refused.append(not_there(email))
            continue
        try:
            new.append(again(old, resends))
        except ValueError as error:
            done.refused.append(str(error))
        else:
            done.old.append(email)
    for some in inserts(new):
        Email.objects.using(database).bulk_create(some)
    for email in new:
        del email.message
    done.new += new
