"""What was counted is added once, also where the answer to the COMMIT was lost."""

import logging
from contextlib import suppress

import pytest
from django.db import OperationalError, transaction
from django.db.models import Sum

from django_dbqueue.lifecycle import execute
from django_dbqueue.lifecycle.claim_end import RetryDecision
from django_dbqueue.lifecycle.failures import Failure
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics import recorder
from django_dbqueue.metrics.recorder import Recorder
from django_dbqueue.models import FailureCount, Minute, Total
from django_dbqueue.models.total import MARKS_CHARS
from django_dbqueue.states import Status
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")
NOTE = Note._meta.db_table


def sums(*names):
    rows = Minute.objects.filter(job_table=NOTE)
    found = rows.aggregate(**{name: Sum(name) for name in names})
    return [found[name] or 0 for name in names]


@pytest.mark.parametrize("is_committed", [False, True])
def test_what_may_have_been_written_before_the_connection_was_lost_is_counted_once(
    monkeypatch, is_committed
):
    """The answer to the COMMIT is lost; meanwhile others write, too, and so do we."""
    table, ours, others = table_of(Note, "default"), Recorder(), Recorder()
    failure = Failure("f" * 12, "OSError", "", "no")
    others.completed(table, [(Note(), 1)])
    others.write()
    lose_the_answer(monkeypatch, ours, table, failure, is_committed=is_committed)
    for _ in range(3):
        others.completed(table, [(Note(), 1)])
        others.write()
    ours.completed(table, [(Note(), 1)])
    assert ours.due_in() < 60
    ours.write()
    ours.write()
    assert ours.due_in() == 60
    assert sums("completed", "failed", "ran_4") == [6, 1, 6]
    [total] = Total.objects.filter(job_table=NOTE, queue="default").values()
    assert (total["completed"], total["failed"]) == (6, 1)
    assert [one.failed for one in FailureCount.objects.all()] == [1]


def lose_the_answer(monkeypatch, ours, table, failure, *, is_committed):
    good = execute.in_transaction

    def lose(at, work):
        if is_committed:
            good(at, work)
        else:
            with suppress(KeyError), transaction.atomic(at.alias):
                work()
                raise KeyError
        raise OperationalError("the connection is lost")

    ours.completed(table, [(Note(), 1)])
    ours.failed(table, "default", None, RetryDecision(Status.BURIED, 0, "").after(failure))
    monkeypatch.setattr(recorder, "in_transaction", lose)
    with suppress(OperationalError):
        ours.write()
    monkeypatch.setattr(recorder, "in_transaction", good)


def test_what_nobody_knows_to_have_been_written_is_left_out_and_said(monkeypatch, caplog):
    """So many others have written since that its mark may have been among theirs."""
    table, ours = table_of(Note, "default"), Recorder()
    lose_the_answer(monkeypatch, ours, table, None, is_committed=True)
    Total.objects.update(written="x" * MARKS_CHARS)
    with caplog.at_level(logging.WARNING, "django_dbqueue"):
        ours.write()
    assert "left out" in caplog.text
    assert sums("completed", "failed") == [1, 1]
