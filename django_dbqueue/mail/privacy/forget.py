"""Erasing one person's emails: what was to them alone, and their part in what was to others too."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from django.apps import apps
from django.db import router
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower

from ...lifecycle import operator
from ...lifecycle.execute import in_transaction
from ...states import Status
from ..models import ArchivedEmail, Email, Mailer, ProviderNote, Suppression
from ..models.recipient import RecipientRows
from ..rows import HAVE_ENDED, amend, locked, mail_table, windows
from ..storing.codec import to_json
from .person import Person

CHUNK = 500
# Of the admin's log: whose entries, the filters in an address of a list, the columns with texts.
APP = "dbqueue_mail"
FILTERS = re.compile(r"(?<==)[^&=\s]+")
LOG_TEXTS = ("object_repr", "change_message")


class Unreadable(Exception):
    """A stored message that this release cannot take anybody out of."""


@dataclass
class Count:
    """What was done to the rows of a table; ``erased`` are among the ``changed``."""

    deleted: int = 0
    changed: int = 0
    erased: int = 0
    # Claimed, or on the move, or not readable and still to be sent.
    left: int = 0

    def add(self, **more: int) -> None:
        for name, number in more.items():
            setattr(self, name, getattr(self, name) + number)

    def __str__(self) -> str:
        return ", ".join(f"{number} {what}" for what, number in asdict(self).items())


class Forget:
    """One pass over all emails; may be run again at any time.

    Emails that are claimed are left as they are, and counted. Those in which somebody is named as
    the sender only are not theirs.
    """

    def __init__(self, person: Person, *, writes: bool) -> None:
        """Without ``writes``, everything is counted and nothing is changed."""
        self.person = person
        self.writes = writes
        self.table = mail_table()
        self.database = self.table.connection.alias

    def queued(self) -> Count:
        return self._go_through(Email)

    def archived(self) -> Count:
        """After ``queued``, as emails move from there to here."""
        return self._go_through(ArchivedEmail)

    def suppressed(self) -> Count:
        rows = Suppression.objects.using(router.db_for_write(Suppression))
        return self._delete_rows(rows, lambda row: self.person.is_at(row.address))

    def early_news(self) -> Count:
        """What a provider has told of emails that were not recorded yet."""
        rows = ProviderNote.objects.using(self.database).filter(email__isnull=True)
        return self._delete_rows(
            rows,
            lambda row: self.person.is_at(row.address) or self.person.is_in(json.dumps(row.news)),
        )

    def _delete_rows(self, rows: QuerySet[Any], is_theirs: Callable[[Any], bool]) -> Count:
        count = Count()
        for window in windows(rows):
            keys = [row.pk for row in window if is_theirs(row)]
            count.deleted += len(keys)
            if self.writes and keys:
                rows.filter(pk__in=keys).delete()
        return count

    def mailers(self) -> Count:
        """What was said when they were paused may name an address."""
        count = Count()
        for mailer in Mailer.objects.using(router.db_for_write(Mailer)):
            reason = self.person.out_of_text(mailer.pause_reason)
            if reason != mailer.pause_reason:
                count.changed += 1
                same = Mailer.objects.using(mailer._state.db).filter(
                    pk=mailer.pk, pause_reason=mailer.pause_reason
                )
                if self.writes:
                    same.update(pause_reason=reason)
        return count

    def _go_through(self, model: Any) -> Count:
        count = Count()
        for window in windows(model._base_manager.using(self.database)):
            seen = list(self._candidates(window))
            alone = [one[:3] for one in seen if self.person.is_all_of(one[3])]
            keys = {key for key, _, _ in alone}
            for start in range(0, len(alone), CHUNK):
                self._delete(model, alone[start : start + CHUNK], count)
            for key in sorted({one[0] for one in seen} - keys):
                outcome = in_transaction(self.table.connection, partial(self._change, model, key))
                count.add(**outcome)
        return count

    def _candidates(self, rows: QuerySet[Any]) -> Iterable[tuple[Any, int, str | None, str]]:
        """All rows that may speak of them, and some more."""
        needle = self.person.needle
        if needle:
            # Not by __icontains: whether that heeds capitals is the collation's business.
            rows = rows.alias(small=Lower("recipients"), whole=Lower("message")).filter(
                Q(small__contains=needle) | Q(whole__contains=needle)
            )
        return rows.order_by("pk").values_list("pk", "status", "owner", "recipients")

    def _delete(self, model: Any, seen: list[operator.Seen], count: Count) -> None:
        if model is Email:
            free = [one for one in seen if one[1] != Status.CLAIMED]
            deleted = operator.delete(self.table, free).changed if self.writes else len(free)
        else:
            deleted = len(seen)
            rows = ArchivedEmail.objects.using(self.database)
            if self.writes:
                gone = rows.filter(pk__in=[key for key, _, _ in seen])
                in_transaction(self.table.connection, gone.delete)
        count.deleted += deleted
        count.left += len(seen) - deleted

    def _change(self, model: Any, key: Any) -> dict[str, int]:
        """What there is to count of one row."""
        row = locked(self.table, model, key)
        has_ended = model is ArchivedEmail or (row is not None and row.status in HAVE_ENDED)
        try:
            columns = changes(self.person, row, has_ended) if row is not None else {}
        except Unreadable:
            return {"left": 1}
        if not columns:
            return {}
        if model is Email and row.status == Status.CLAIMED:
            return {"left": 1}
        if self.writes:
            if not amend(self.table, row, columns):
                return {"left": 1}
            if "recipients" in columns:
                row.recipients = columns["recipients"]
                RecipientRows().renew(self.table, row)
        return {"changed": 1, "erased": int("is_erased" in columns)}


def changes(person: Person, row: Any, has_ended: bool) -> dict[str, Any]:
    """What is to be written into a row so that it speaks of them no more; nothing where it does
    not. An email that has ended loses the whole of its message, as its text may speak of them."""
    found = {
        "recipients": person.out_of_list(row.recipients),
        "deliveries": person.out_of_any(row.deliveries),
        "errors": person.out_of_any(row.errors),
        "message": _message_without(person, row.message, has_ended),
    }
    found = {name: value for name, value in found.items() if value != getattr(row, name)}
    if has_ended and found and (row.subject or not row.is_erased):
        found |= {"message": "", "subject": "", "is_erased": True}
    return found


def _message_without(person: Person, message: str, has_ended: bool) -> str:
    if not message:
        return message
    try:
        stored = json.loads(message)
        without = person.out_of_message(stored)
    except (ValueError, LookupError, TypeError, AttributeError):
        if has_ended or not person.is_in(message):
            return person.out_of_text(message)
        raise Unreadable from None
    return message if without == stored else to_json(without)


def log_entries(person: Person, *, writes: bool) -> Count:
    """Take them out of what the admin's log says of mail; who did what and when stays in it."""
    count = Count()
    if not apps.is_installed("django.contrib.admin"):
        return count
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415  # needs the app

    entries = LogEntry.objects.using(router.db_for_write(LogEntry))
    entries = entries.filter(content_type__app_label=APP)
    for window in windows(entries):
        for entry in window.only(*LOG_TEXTS).order_by("pk"):
            found = {name: getattr(entry, name) for name in LOG_TEXTS}
            without = {name: _log_text_without(person, text) for name, text in found.items()}
            changes = {name: text for name, text in without.items() if text != found[name]}
            count.changed += bool(changes)
            if writes and changes:
                entries.filter(pk=entry.pk).update(**changes)
    return count


def _log_text_without(person: Person, text: str) -> str:
    # Filters of a list are logged as they are written in its address.
    def plain(found: re.Match[str]) -> str:
        value = unquote_plus(found[0])
        return quote_plus(person.out_of_text(value)) if person.is_in(value) else found[0]

    return FILTERS.sub(plain, person.out_of_text(text))
