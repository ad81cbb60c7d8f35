"""What people do to many emails, for bulk actions."""

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext_lazy

from ..lifecycle.operator import Changed
from ..operate.by_row import ROW_VERBS, Doer, RowVerb
from .in_doubt import mark_as_sent
from .models import Email
from .models.queryset import LOOKED_UP_MAX
from .privacy.erase import erase
from .resending import resend_many


def register() -> None:
    for name, title, label, do in (
        ("resend", "Send again", gettext_lazy("Send again"), resend),
        ("settle", "Mark as sent", gettext_lazy("Mark as sent"), settle),
        ("forget", "Erase messages", gettext_lazy("Erase messages"), forget),
    ):
        ROW_VERBS[name] = RowVerb(title, label, do, defers=["message"])


def resend(emails: Sequence[Any], doer: Doer) -> Changed:
    """Not what was sent again since it was asked for."""
    database = emails[0]._state.db if emails else None
    rows, keys, resent = Email.objects.using(database), [one.pk for one in emails], set[Any]()
    for start in range(0, len(keys), LOOKED_UP_MAX):
        some = keys[start : start + LOOKED_UP_MAX]
        later = rows.filter(resend_of__in=some, created_at__gt=doer.since)
        resent |= set(later.values_list("resend_of", flat=True))
    done = resend_many([one for one in emails if one.pk not in resent])
    return _changed(emails, len(done.old))


def settle(emails: Sequence[Any], doer: Doer) -> Changed:
    done = [one for one in emails if one.is_in_doubt and mark_as_sent(one, doer.name)]
    return _changed(emails, len(done))


def forget(emails: Sequence[Any], _doer: Doer) -> Changed:
    return _changed(emails, len(erase(emails)))


def _changed(emails: Sequence[Any], number: int) -> Changed:
    return Changed(number, len(emails) - number)
