"""An outcome that is written, but its answer is lost: the next try finds it, and says so once."""

import logging
from contextlib import contextmanager

import pytest
from django.db import Error, connection
from django.db.models import QuerySet

from django_dbqueue import signals
from django_dbqueue.exceptions import Bury, ClaimLost, Retry
from django_dbqueue.fields import DbNow
from django_dbqueue.metrics import recorder
from django_dbqueue.models import Minute
from django_dbqueue.states import Status
from django_dbqueue.worker.buffer import Outcome
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.session import Session
from tests.kit.jobs import claim_one, claimed, fresh, overwrite, reap_overdue, table
from tests.queueapp.models import Fleeting, Note
from tests.sweeps.codes import CODES, Raise
from tests.sweeps.places import numbered

pytestmark = pytest.mark.usefixtures("db_rows")

SENT = ("job_completed", "job_failed", "job_buried", "job_expired")
WRITES = ("UPDATE", "DELETE")


class LoseAnswer(Raise):
    """The first write is done, and its answer is lost with the connection."""

    def __init__(self, then):
        [code, *_] = [one for one in CODES[connection.vendor] if one.is_unknown]
        super().__init__(None, code, "after")
        self.then = then

    def __call__(self, number, what, run):
        if self.hit is None and what.startswith(WRITES):
            self.number = number
        return super().__call__(number, what, run)

    def _run(self, what, run):
        super()._run(what, run)
        self.then()


@contextmanager
def answer_lost(then=lambda: None):
    """``then`` happens before the writer comes back."""
    lose = LoseAnswer(then)
    with numbered(connection, lose):
        yield
    assert lose.hit is not None


@pytest.fixture
def sent(caplog):
    """The names of the signals that were sent."""
    caplog.set_level(logging.INFO, "django_dbqueue")
    recorder._forget()
    names, receivers = [], {}
    for name in SENT:
        receivers[name] = lambda name=name, **_: names.append(name)
        getattr(signals, name).connect(receivers[name])
    yield names
    for name in SENT:
        getattr(signals, name).disconnect(receivers[name])


def finisher_of(job, error=None, **more):
    finisher = Finisher(Session({"default"}), 1, lambda: None)
    finisher.put(Outcome(table(type(job)), job.claim_owner, job, error, **more))
    return finisher


def write(job, error=None, then=lambda: None, **more):
    """As a worker does, which tries again."""
    finisher = finisher_of(job, error, **more)
    with answer_lost(then):
        finisher.flush()
        assert finisher.pending == 1
        finisher.flush()
    assert finisher.pending == 0
    finisher.end()


def counted(model=Note):
    rows = Minute.objects.filter(job_table=model._meta.db_table)
    [(completed, failed)] = rows.values_list("completed", "failed") or [(0, 0)]
    return completed, failed


def said(caplog, event):
    return [record for record in caplog.records if getattr(record, "event", "") == event]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("it broke"), ["job_failed"]),
        (Retry(delay=0), ["job_failed"]),
        (Bury("for a person"), ["job_failed", "job_buried"]),
    ],
    ids=["by policy", "at once", "buried"],
)
def test_a_failure_is_told_and_counted_once(sent, caplog, error, expected):
    job = claimed()
    write(job, error)
    assert (sent, counted()) == (expected, (0, 1))
    assert len(fresh(job).errors) == 1
    assert not said(caplog, "job.lost")


def test_nor_is_a_failure_lost_that_another_has_tried_again_meanwhile(sent, caplog):
    def try_again():
        claim_one().fail(Retry(delay=0))
        claim_one()

    job = claimed()
    write(job, Retry(delay=0), then=try_again)
    assert (sent, counted()) == (["job_failed"], (0, 1))
    assert fresh(job).attempts == 3
    assert not said(caplog, "job.lost")


def test_a_job_that_was_taken_away_before_its_failure_arrived_is_lost(sent, caplog):
    """The reaper's entry in ``errors`` is of the same claim."""
    job = claimed()
    overwrite(job, retry_at=DbNow(plus=-5))
    assert reap_overdue(table()) == 1
    finisher = finisher_of(job, RuntimeError("it broke"))
    finisher.flush()
    assert (sent, finisher.pending) == ([], 0)
    assert len(said(caplog, "job.lost")) == 1


def test_an_expired_job_is_told_once(sent, caplog):
    job = claimed()
    write(job, expired=True)
    assert (sent, fresh(job).state) == (["job_expired"], "done")
    assert not said(caplog, "job.lost")


def forget_it():
    """It was moved to the archive, or pruned."""
    QuerySet(Note).delete()


def test_a_completion_is_told_and_counted_once(sent, caplog):
    write(claimed())
    assert (sent, counted(Note)) == (["job_completed"], (1, 0))
    assert not said(caplog, "job.gone")


def test_a_completion_whose_row_is_gone_is_told_by_nobody_for_another_may_have_completed_it(
    sent, caplog
):
    write(claimed(), then=forget_it)
    assert (sent, counted(Note)) == ([], (0, 0))
    assert len(said(caplog, "job.gone")) == 1


def test_a_job_that_was_deleted_while_it_ran_is_gone(sent, caplog):
    finisher = finisher_of(claimed(Fleeting))
    QuerySet(Fleeting).delete()
    finisher.flush()
    assert (sent, finisher.pending) == ([], 0)
    assert len(said(caplog, "job.gone")) == 1


def test_ones_own_loop_may_say_again_that_a_job_failed():
    job = claimed()
    with answer_lost(), pytest.raises(Error):
        job.fail("it broke")
    connection.close()
    job.fail("it broke")
    assert not job.holds_claim()
    row = fresh(job)
    assert (row.status, len(row.errors)) == (Status.DELAYED, 1)


def test_but_not_that_it_failed_in_another_way():
    job = claimed()
    with answer_lost(), pytest.raises(Error):
        job.fail("it broke")
    connection.close()
    with pytest.raises(ClaimLost):
        job.fail("it broke twice")
