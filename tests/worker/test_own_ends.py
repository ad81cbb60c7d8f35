"""Jobs whose own code ends their claims: they are counted, logged and told of like any others."""

import logging

import pytest
from django.db.models import Sum

from django_dbqueue import signals
from django_dbqueue.metrics import recorder
from django_dbqueue.models import FailureCount, Minute
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.inline_worker import logged, work_off
from tests.kit.jobs import fresh
from tests.queueapp.models import Awaited, Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture(autouse=True)
def nothing_from_before():
    """Other tests run jobs in this process, too."""
    recorder._forget()


@pytest.fixture
def heard():
    """The names of the signals that were sent."""
    names = []
    receivers = {}
    for name in ("job_completed", "job_failed", "job_buried"):
        receivers[name] = lambda name=name, **_: names.append(name)
        getattr(signals, name).connect(receivers[name])
    yield names
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


def counted(model):
    rows = Minute.objects.filter(job_table=model._meta.db_table)
    sums = rows.aggregate(*map(Sum, ("completed", "failed", "buried")))
    return [number or 0 for number in sums.values()]


def test_a_job_that_completes_itself_is_counted_logged_and_told_of(heard):
    job = Note.objects.create(action="complete")
    with logged(logging.DEBUG) as log, InlineWorker("queueapp.note") as worker:
        worker.run()
    assert counted(Note) == [1, 0, 0]
    assert heard == ["job_completed"]
    [line] = log.told("job.completed")
    assert (line["id"], line["worker"]) == (job.pk, line["owner"][:8])


def test_so_is_a_coroutine(log, heard):
    Awaited.objects.create(action="complete", log=log)
    work_off("queueapp.awaited")
    assert counted(Awaited) == [1, 0, 0]
    assert heard == ["job_completed"]


def test_a_job_that_buries_itself_is_a_failed_attempt(monkeypatch, heard):
    monkeypatch.setattr(Note, "run", lambda self: self.bury("for a person"))
    Note.objects.create()
    with logged() as log:
        work_off("queueapp.note")
    assert counted(Note) == [0, 1, 1]
    assert FailureCount.objects.get().failed == 1
    assert heard == ["job_failed", "job_buried"]
    assert len(log.told("job.failed")) == 1


@pytest.mark.parametrize("verb", ["release", "delete"])
def test_one_that_gives_itself_back_or_is_gone_has_not_ended(monkeypatch, heard, verb):
    verbs = {"release": lambda self: self.release(delay=60), "delete": lambda self: self.delete()}
    monkeypatch.setattr(Note, "run", verbs[verb])
    Note.objects.create()
    work_off("queueapp.note")
    assert counted(Note) == [0, 0, 0]
    assert heard == []


def test_a_completion_that_is_undone_is_counted_once_as_the_workers():
    job = Note.objects.create(action="undone")
    work_off("queueapp.note")
    assert fresh(job).status == Status.DONE
    assert counted(Note) == [1, 0, 0]
