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


@dataclass
class Resent:
    """The ``old`` emails that are sent again by ``new`` ones, and why others are not."""

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
    keys, done = sorted(email.pk for email in emails), Resent()
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
            done.new.append(again(old, resends))
        except ValueError as error:
            done.refused.append(str(error))
        else:
            done.old.append(email)
    for some in inserts(done.new):
        Email.objects.using(database).bulk_create(some)
    return done
