"""Jobs that have failed, and what was counted of that."""

from typing import Any

from django.db.models import F

from django_dbqueue.exceptions import Bury
from django_dbqueue.lifecycle.errors import entry
from django_dbqueue.lifecycle.failures import Failure, failure_of
from django_dbqueue.metrics.failures import rows_of
from django_dbqueue.metrics.recorder import add, this_minute
from django_dbqueue.monitor.failures import Failures, failures
from django_dbqueue.worker.served import Served
from tests.kit.jobs import claimed, fresh
from tests.queueapp.models import Note

NO_FILE, NO_PAPER = OSError("no file 7"), ValueError("no paper")


def failed(error: BaseException = NO_FILE, model: Any = Note, **columns: Any) -> Any:
    """A job that is buried with an error."""
    job = claimed(model, **columns)
    job.fail(Bury(of=error))
    return fresh(job)


def retrying(error: BaseException = NO_FILE, model: Any = Note, **columns: Any) -> Any:
    job = claimed(model, **columns)
    job.fail(error)
    return fresh(job)


def kind(error: BaseException = NO_FILE) -> Failure:
    return failure_of(entry(error, attempt=1, owner=None))


def count(
    number: int, error: BaseException = NO_FILE, queue: str = "default", ago: int = 0
) -> None:
    """So many attempts failed, so many minutes ago."""
    table, minute = Note._meta.db_table, this_minute("default") - ago
    if not ago:
        add(("default", table, queue), {"failed": number}, {kind(error): number})
        return
    for rows, its in rows_of("default", table, queue, minute, {kind(error): number}):
        rows.update(failed=F("failed") + its)


def look(**asked: Any) -> Failures:
    return failures([Served(Note, "default")], **asked)
