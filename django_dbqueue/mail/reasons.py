"""Why an email waits, as only mail knows."""

from collections.abc import Iterator
from email.utils import getaddresses
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..lifecycle.table import Table
from ..states import Status
from ..texts.wording import duration, number, rate_word
from .conf import mailer_of, rates_for
from .deliveries import SENT, Deliveries, Outcome, address_of
from .models import Email, Mailer, Suppression
from .models.mailer import NOW

COLUMNS = ("status", "queue", "priority", "using", "recipients", "deliveries")
BY_OUTCOME = {
    Outcome.REFUSED: gettext_lazy("Recipients refused by the server: %(number)s of %(total)s."),
    Outcome.SUPPRESSED: gettext_lazy("Recipients suppressed: %(number)s of %(total)s."),
    Outcome.NOT_ALLOWED: gettext_lazy(
        "Recipients not allowed here (MAIL_ALLOWED_DOMAINS): %(number)s of %(total)s."
    ),
    Outcome.DEFERRED: gettext_lazy("Recipients put off by the server: %(number)s of %(total)s."),
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
            text = _("Recipients that are suppressed, and get nothing: %(number)s of %(total)s.")
            found.append(text % _of(count, len(waiting)))
    elif count := len(known.doubtful()):
        found.append(_doubt(count))
    total = len(known.by_address)
    if count := len(known.having(SENT)):
        text = _("Recipients who have got it, and do not get it again: %(number)s of %(total)s.")
        found.append(text % _of(count, total))
    for outcome, words in BY_OUTCOME.items():
        if count := len(known.having({outcome})):
            found.append(str(words) % _of(count, total))
    return found


def _of(count: int, total: int) -> dict[str, str]:
    return {"number": number(count), "total": number(total)}


def _doubt(count: int) -> str:
    if count == 1:
        return _(
            "It is in doubt whether a recipient got it: nobody answered when it was sent as a "
            "whole, or its worker died. Mark it as sent, or retry it."
        )
    text = ngettext(
        "It is in doubt whether %(number)s recipient got it: nobody answered when it was sent as a "
        "whole, or its worker died. Mark it as sent, or retry it.",
        "It is in doubt whether %(number)s recipients got it: nobody answered when it was sent as "
        "a whole, or its worker died. Mark it as sent, or retry it.",
        count,
    )
    return text % {"number": number(count)}


def _of_mailer(email: Email) -> Iterator[str]:
    name = mailer_of(email.using)
    rows: Any = Mailer.objects.using(router.db_for_write(Mailer)).annotate(**NOW)
    mailer: Mailer | None = rows.filter(name=name).first()
    if mailer is None:  # it has sent nothing yet
        return
    if mailer.rest:
        text = _("Its mailer, %(name)s, rests for %(time)s: the mailer's page says why.")
        yield text % {"name": name, "time": duration(mailer.rest)}
    try:
        rates = rates_for(name)
    except ImproperlyConfigured as error:
        yield str(error)
        return
    limit = ", ".join(map(rate_word, rates))
    if mailer.bucket().is_empty:
        text = _("The limit of its mailer, %(name)s (%(limit)s), is used up for now.")
        yield text % {"name": name, "limit": limit}
