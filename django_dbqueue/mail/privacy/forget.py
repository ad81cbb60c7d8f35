"""Erasing one person's mail: what was to them alone, and their part in what was to others too."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from django.db import router
from django.db.models import Q, QuerySet
from django.db.models.functions import Lower

from ...lifecycle import operator
from ...lifecycle.execute import in_transaction
from ...states import Status
from ..models import ArchivedEmail, Email, Mailer, ProviderNote, Suppression
from ..rows import HAVE_ENDED, amend, locked, mail_table, windows
from ..storing.codec import to_json
from .person import Person

CHUNK = 500


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
    """One pass over all mail; may be run again at any time.

    Mail that is claimed is left as it is, and counted. Mail in which somebody stands as the sender
    only is not theirs.
    """

    def __init__(self, person: Person, *, writes: bool) -> None:
        """Without ``writes``, everything is counted and nothing is changed."""
        self.person = person
        self.writes = writes
        self.table = mail_table()
        self.database = self.table.connection.alias

    def queued(self) -> Count:
        return self._go_through(Email, self._delete_queued)

    def archived(self) -> Count:
        """After ``queued``, as mail moves from there to here."""
        return self._go_through(ArchivedEmail, self._delete_archived)

    def suppressed(self) -> Count:
        rows = Suppression.objects.using(router.db_for_write(Suppression))
        count = Count()
        for window in windows(rows):
            keys = [row.pk for row in window if self.person.is_at(row.address)]
            count.deleted += len(keys)
            if self.writes and keys:
                rows.filter(pk__in=keys).delete()
        return count

    def early_news(self) -> Count:
        """What a provider has told of mail that was not recorded yet."""
        rows = ProviderNote.objects.using(self.database).filter(email__isnull=True)
        count = Count()
        for window in windows(rows):
            keys = [row.pk for row in window if self._is_of(row)]
            count.deleted += len(keys)
            if self.writes and keys:
                rows.filter(pk__in=keys).delete()
        return count

    def _is_of(self, row: ProviderNote) -> bool:
        return self.person.is_at(row.address) or self.person.is_in(json.dumps(row.news))

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

    def _go_through(
        self, model: Any, delete: Callable[[list[operator.Seen], Count], None]
    ) -> Count:
        count = Count()
        for window in windows(model._base_manager.using(self.database)):
            seen = list(self._candidates(window))
            alone = [one[:3] for one in seen if self.person.is_all_of(one[3])]
            keys = {key for key, _, _ in alone}
            for start in range(0, len(alone), CHUNK):
                delete(alone[start : start + CHUNK], count)
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

    def _delete_queued(self, seen: list[operator.Seen], count: Count) -> None:
        free = [one for one in seen if one[1] != Status.CLAIMED]
        deleted = operator.delete(self.table, free).changed if self.writes else len(free)
        count.deleted += deleted
        count.left += len(seen) - deleted

    def _delete_archived(self, seen: list[operator.Seen], count: Count) -> None:
        keys = [key for key, _, _ in seen]
        if self.writes:
            rows = ArchivedEmail.objects.using(self.database).filter(pk__in=keys)
            in_transaction(self.table.connection, rows.delete)
        count.deleted += len(keys)

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
        if self.writes and not amend(self.table, row, columns):
            return {"left": 1}
        return {"changed": 1, "erased": int("is_erased" in columns)}


def changes(person: Person, row: Any, has_ended: bool) -> dict[str, Any]:
    """What is to be written into a row so that it speaks of them no more; nothing where it does
    not. Mail that has ended loses the whole of its message, as its text may speak of them."""
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
