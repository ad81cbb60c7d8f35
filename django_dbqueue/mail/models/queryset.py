"""The verbs of the table of emails that look at more than an email's own state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.apps import apps
from django.db import models, router
from django.db.models import QuerySet
from django.db.models.functions import Cast
from django.utils.translation import gettext, override

from ...lifecycle import operator
from ...lifecycle.execute import in_transaction, placeholders, rows
from ...lifecycle.operator import CHUNK, Changed, Due, Seen
from ...lifecycle.table import Table, table_of
from ...models.by_hand import kicking
from ...models.queryset import JobManager, JobQuerySet
from ...states import MOVES, Status
from ..conf import mail_conf
from ..deliveries import MARK, Deliveries
from .recipient import delete_with_rows

UNDER_WAY = (Status.READY, Status.CLAIMED, Status.DELAYED)
OTHERS_NAMED_MAX = 3
Kicking = Callable[[Table, Sequence[Seen]], Changed]
# Values of a column that is no key in one list. From 200 on MariaDB and MySQL look none of them up
# in the index, but go by the mean: of a column that is almost always null, the whole table.
LOOKED_UP_MAX = 100


@dataclass
class Kicked(Changed):
    """``skipped`` counts also those which another email, not finished yet, sends again."""

    resends: dict[Any, Any] = field(default_factory=dict)

    def __add__(self, other: Changed) -> "Kicked":
        both = super().__add__(other)
        return Kicked(both.changed, both.skipped, self.resends | getattr(other, "resends", {}))

    def __str__(self) -> str:
        said = str(Changed(self.changed, self.skipped - len(self.resends)))
        with override(None):
            others = [f"{count} skipped: {why}" for count, why in self.reasons()]
        return "; ".join([said, *others])

    def reasons(self) -> list[tuple[int, str]]:
        """How many were skipped for what reason of mail's own, in the reader's language."""
        if not self.resends:
            return []
        others = ", ".join(str(pk) for pk in list(self.resends.values())[:OTHERS_NAMED_MAX])
        more = ", .." if len(self.resends) > OTHERS_NAMED_MAX else ""
        text = gettext(
            "being sent again by email %(others)s: retry that one, or mark it as failed first"
        )
        return [(len(self.resends), text % {"others": f"{others}{more}"})]


class WithRecipients(QuerySet[Any]):
    """Its ``delete`` takes along by whom the emails are found."""

    def delete(self) -> tuple[int, dict[str, int]]:
        database = self._db or router.db_for_write(self.model)  # type: ignore[attr-defined]
        table = table_of(apps.get_model("dbqueue_mail.Email"), database)
        keys = self.using(database).order_by().values_list("pk", flat=True)
        deleted: tuple[int, dict[str, int]] = delete_with_rows(table, keys, super().delete)
        return deleted

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


class EmailQuerySet(WithRecipients, JobQuerySet[Any]):  # type: ignore[override]
    def kick(self, due: Due | None = None, time_to_run: int | None = None) -> Changed:
        """Put failed and delayed emails back to work, with all their attempts.

        Not what is being sent again by another email: who lacks it would get both.
        """
        return self._by_hand(partial(kick, change=kicking(self.model, due, time_to_run)))


class EmailManager(JobManager.from_queryset(EmailQuerySet)):  # type: ignore[misc]
    """The manager of emails."""


class ArchivedEmailManager(models.Manager.from_queryset(WithRecipients)):  # type: ignore[misc]
    """That of the archive."""


def kick(table: Table, seen: Sequence[Seen], change: Kicking = operator.kick) -> Kicked:
    """Kick what no other email is about to send again; in chunks, each a transaction."""
    result = Kicked()
    in_order = sorted(seen, key=lambda one: one[0])
    for start in range(0, len(in_order), CHUNK):
        chunk = in_order[start : start + CHUNK]
        done, resends = in_transaction(table.connection, partial(_kick, table, chunk, change))
        result.changed += done.changed
        result.skipped += done.skipped + len(resends)
        result.resends |= resends
    return result


def resends_of(table: Table, keys: Sequence[Any]) -> dict[Any, Any]:
    """By the key of an email, that of the one under way which sends it again."""
    emails = table.model._base_manager.using(table.connection.alias)
    found: list[tuple[Any, Any]] = []
    for start in range(0, len(keys), LOOKED_UP_MAX):
        some = keys[start : start + LOOKED_UP_MAX]
        waiting = emails.filter(resend_of__in=some, status__in=UNDER_WAY)
        found += waiting.values_list("resend_of", "pk")
    return dict(sorted(found))


def _kick(table: Table, chunk: Sequence[Seen], change: Kicking) -> tuple[Changed, dict[Any, Any]]:
    keys = [key for key, _, _ in chunk]
    if table.connection.features.has_select_for_update:
        # Wait for those who are queueing another email for one of them, and have it locked.
        found = f"SELECT {table.pk} FROM {table.by_key} WHERE {table.pk} IN ({placeholders(keys)})"
        lock = table.connection.ops.for_update_sql()
        rows(table.connection, f"{found} ORDER BY {table.pk} {lock}", keys)
    resends = resends_of(table, keys)
    kicked = [one for one in chunk if one[0] not in resends]
    _settle_marks(table, kicked)
    return change(table, kicked), resends


def _settle_marks(table: Table, kicked: Sequence[Seen]) -> None:
    """Whoever has them sent again has decided: no run that was cut off holds them any more. Not
    those that the kick skips: nobody has decided anything of them."""
    if mail_conf["IN_DOUBT"] != "hold":
        return
    seen = {one[0]: one for one in kicked if one[1] in MOVES["kick"][0]}
    emails = table.model._base_manager.using(table.connection.alias)
    stored = emails.annotate(stored=Cast("deliveries", models.TextField()))
    marked = stored.filter(pk__in=[*seen], stored__contains=MARK)
    for email in marked.only("deliveries"):
        deliveries = Deliveries(email.deliveries)
        deliveries.note_cut_off()
        operator.amend(table, [seen[email.pk]], {"deliveries": deliveries.stored()})
