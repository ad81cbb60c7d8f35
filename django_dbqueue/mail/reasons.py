"""Why an email waits, as only mail knows."""

from collections.abc import Iterator
from email.utils import getaddresses
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router

from ..lifecycle.claim_end import duration
from ..lifecycle.table import Table
from ..states import Status
from .conf import mailer_of, rates_for
from .deliveries import SENT, Deliveries, Outcome, address_of
from .models import Email, Mailer, Suppression
from .models.mailer import NOW

COLUMNS = ("status", "queue", "priority", "using", "recipients", "deliveries")
BY_OUTCOME = {
    Outcome.REFUSED: "refused by the server",
    Outcome.SUPPRESSED: "suppressed",
    Outcome.NOT_ALLOWED: "not allowed here (MAIL_ALLOWED_DOMAINS)",
    Outcome.DEFERRED: "put off by the server",
}


def reasons(table: Table, key: Any) -> list[str]:
    """For ``diagnose.REASONS``; names nobody whom the email is for, nor says what a server said."""
    rows = Email._base_manager.using(table.connection.alias).only(*COLUMNS)
    email = rows.filter(pk=key).first()
    if email is None:
        return []
    found: list[str] = []
    known = Deliveries(email.deliveries)
    if email.status != Status.BURIED:
        found += _of_mailer(email)
        addresses = [address_of(one) for _, one in getaddresses([email.recipients]) if one]
        waiting = dict.fromkeys(one for one in addresses if one not in known.having(SENT))
        if count := len(Suppression.objects.among(waiting)):
            found.append(
                f"Recipients that are suppressed, and get nothing: {count} of {len(waiting)}."
            )
    elif count := len(known.having({Outcome.IN_DOUBT})):
        who = "a recipient" if count == 1 else f"{count} recipients"
        found.append(
            f"It is in doubt whether {who} got it: nobody answered when it was sent as a whole, or "
            "its worker died. Mark it as sent, or retry it."
        )
    total = len(known.by_address)
    if count := len(known.having(SENT)):
        found.append(f"Recipients who have got it, and do not get it again: {count} of {total}.")
    for outcome, words in BY_OUTCOME.items():
        if count := len(known.having({outcome})):
            found.append(f"Recipients {words}: {count} of {total}.")
    return found


def _of_mailer(email: Email) -> Iterator[str]:
    name = mailer_of(email.using)
    rows: Any = Mailer.objects.using(router.db_for_write(Mailer)).annotate(**NOW)
    mailer: Mailer | None = rows.filter(name=name).first()
    if mailer is None:  # it has sent nothing yet
        return
    if mailer.rest:
        yield f"Its mailer, {name}, rests for {duration(mailer.rest)}: the mailer's page says why."
    try:
        rates = rates_for(name)
    except ImproperlyConfigured as error:
        yield str(error)
        return
    limit = ", ".join(map(str, rates))
    if mailer.bucket().is_empty:
        yield f"The limit of its mailer, {name} ({limit}), is used up for now."
