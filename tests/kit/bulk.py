"""Bulk actions for tests: asked for, worked off, and what the admin's log says of them."""

from typing import Any

from django.contrib.admin.models import LogEntry
from django.db.models import QuerySet

from django_dbqueue.bulk.chosen import Chosen
from django_dbqueue.bulk.models import Asker, BulkAction
from django_dbqueue.operate.moments import now_of
from django_dbqueue.states import Status
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.queueapp.models import Note

TABLE = "dbqueue_bulk.bulkaction"
ALL = Chosen()


def rows(number: int, status: Status = Status.READY, model: Any = Note, **columns: Any) -> None:
    """So many of a state, without a life."""
    QuerySet(model).bulk_create(model(status=status, **columns) for _ in range(number))


def asked(
    verb: str, chosen: Chosen = ALL, model: Any = Note, user: Any = None, **values: Any
) -> Any:
    """By the clock of this moment."""
    asker = Asker(str(user.pk), user.username) if user else Asker("", "")
    now = now_of("default")
    return BulkAction.ask(verb, model, "default", chosen, now, asker, values)[0]


def worked_off(row: Any) -> Any:
    """By a worker that does nothing but bulk actions; the row as it is then."""
    work_off(TABLE)
    return fresh(row)


def entries() -> list[str]:
    return list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True))
