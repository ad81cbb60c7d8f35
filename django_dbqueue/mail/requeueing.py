"""Lines at a mailer's limit that are made again: their emails are called back by the reaper."""

from functools import partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import router
from django.db.models import F

from ..lifecycle import operator
from ..lifecycle.execute import try_once_in_transaction
from ..lifecycle.table import Table
from ..states import Status
from . import limits
from .conf import mailer_of, rates_for
from .models import Email, Mailer
from .models.mailer import NOW

CHUNK = 500
GAP_SECONDS = 60.0  # in which nobody has a turn, though there are tokens


class Requeueing:
    """Calls back up to 500 messages of a line whenever it is called.

    A line is made again where this process has other limits than those it was made by, and where
    nobody is in it any more, or nobody for a minute to come: emails were cancelled.
    """

    def __init__(self) -> None:
        # By mailer, the limits with which its line was looked at: where two hosts have different
        # ones, each has its way once, and not in turn for ever.
        self._known: dict[str, dict[str, int]] = {}

    def __call__(self, table: Table) -> int:
        """How many messages were called back."""
        alias = table.connection.alias
        if router.db_for_write(Mailer) != alias:
            return 0
        called = 0
        for row in Mailer.objects.using(alias).annotate(**NOW):
            if row.called_up_to is None and (self._is_changed(row) or _is_broken(table, row)):
                row.renew()
                row.refresh_from_db()
            if row.called_up_to is not None:
                called += _call_back(table, row)
        return called

    def _is_changed(self, row: Any) -> bool:
        try:
            today = limits.written(rates_for(row.name))
        except ImproperlyConfigured:
            return False
        was_known, self._known[row.name] = self._known.get(row.name), today
        return today != was_known and bool(row.has_line) and row.line_limits != today


def _is_broken(table: Table, row: Any) -> bool:
    if not row.has_line or row.rest:
        return False
    first = _waiting(table, row.name).order_by("retry_at").values_list("retry_at", "recipients")
    for due, recipients in first[:1]:
        is_late = (due - row.now).total_seconds() > GAP_SECONDS
        return is_late and bool(row.has_tokens(recipients.count(",") + 1))
    return True


def _call_back(table: Table, row: Mailer) -> int:
    # Not by the key's index: few of all emails wait.
    waiting = _waiting(table, row.name).annotate(key=F("pk") + 0).filter(key__gt=row.called_up_to)
    keys = list(waiting.order_by("key").values_list("pk", flat=True)[:CHUNK])
    seen = [(key, Status.DELAYED, None) for key in keys]
    call = partial(operator.hasten, table, seen, {"turn_at": None})
    called = try_once_in_transaction(table.connection, call) if keys else operator.Changed()
    if called is None:
        return 0  # somebody has locked some of them: another time
    row.note_called(keys[-1] if len(keys) == CHUNK else None)
    return called.changed


def _waiting(table: Table, name: str) -> Any:
    using = {name, ""} if mailer_of("") == name else {name}
    rows = Email.objects.using(table.connection.alias).delayed()
    return rows.filter(turn_at__isnull=False, using__in=using)
