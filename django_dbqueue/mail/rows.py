"""The rows of emails wherever they are by now: gone through, locked, written, written to."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from django.db import router
from django.db.models import Max, Min, Model, QuerySet

from ..lifecycle import operator
from ..lifecycle.table import Table, table_of
from ..states import Status
from .models import ArchivedEmail, Email

T = TypeVar("T", bound=Model)

PLACES = (Email, ArchivedEmail)  # in this order: an email moves from the one to the other
HAVE_ENDED = (Status.DONE, Status.BURIED)
WINDOW_ROWS = 2000

# What one INSERT carries at most: well below the smallest packet limit that servers come with.
INSERT_BYTES = 4 * 1024 * 1024


def mail_table() -> Table:
    """The table of emails where it is written; its archive is in the same database."""
    return table_of(Email, router.db_for_write(Email))


def windows(rows: "QuerySet[T]", *, newest_first: bool = False) -> "Iterator[QuerySet[T]]":
    """Parts of a queryset, in the order of their keys; each ends at the 2,000th key, so that no
    statement looks at more rows than these, whatever is asked of them."""
    last: type[Max] | type[Min] = Max
    order, within, beyond = "pk", "pk__lte", "pk__gt"
    if newest_first:
        last, order, within, beyond = Min, "-pk", "pk__gte", "pk__lt"
    left = rows
    while True:
        keys = left.order_by(order).values("pk")[:WINDOW_ROWS]
        end = keys.aggregate(end=last("pk"))["end"]
        if end is None:
            return
        yield left.filter(**{within: end})
        left = rows.filter(**{beyond: end})


def inserts(emails: Sequence[Email]) -> list[list[Email]]:
    """In their order, what one INSERT each may carry."""
    found: list[list[Email]] = []
    left = 0
    for email in emails:
        size = len(email.message.encode())
        if size > left or not found:
            found.append([])
            left = INSERT_BYTES
        found[-1].append(email)
        left -= size
    return found


def locked(table: Table, model: Any, key: Any) -> Any:
    """The row, which nobody else can change while the transaction lasts; None where it is gone."""
    rows = model._base_manager.using(table.connection.alias)
    return rows.select_for_update().filter(pk=key).first()


def amend(table: Table, row: Any, columns: dict[str, Any]) -> int:
    """Write columns of a row; 0 where a worker has it, or its state has moved on."""
    if isinstance(row, Email):
        return operator.amend(table, [(row.pk, row.status, row.owner)], columns).changed
    rows = ArchivedEmail.objects.using(table.connection.alias).filter(pk=row.pk)
    return int(rows.update(**columns))
