"""Jobs with a ``min_version`` wait for code that is new enough, and keep nothing else waiting."""

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import models

from django_dbqueue.checks.tables import check_table
from django_dbqueue.diagnose import explain
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import versions
from django_dbqueue.models import Job, Worker
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.command_line import as_json, dbqueue
from tests.kit.jobs import fresh, overwrite, table
from tests.kit.overview import a_worker
from tests.queueapp.models import Note, Versioned

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]


@pytest.fixture(autouse=True)
def version_1(settings):
    settings.DBQUEUE = {"CODE_VERSION": 1}


def seconds_left(job) -> float:
    [row] = type(job).objects.filter(pk=job.pk).annotate(now=DbNow())
    return (row.retry_at - row.now).total_seconds()


def test_what_needs_newer_code_is_put_off_and_charged_with_nothing():
    newer, ours, older, any_code = (
        Versioned.objects.create(min_version=number) for number in (2, 1, 0, 0)
    )
    claimed = Versioned.objects.claim(10)
    assert {job.pk for job in claimed} == {ours.pk, older.pk, any_code.pk}
    row = fresh(newer)
    assert (row.status, row.attempts, row.owner, row.errors) == (Status.DELAYED, 0, None, [])
    assert 0 < seconds_left(row) <= 10


def test_newer_code_runs_it(settings):
    job = Versioned.objects.create(min_version=2)
    assert Versioned.objects.claim() == []
    settings.DBQUEUE = {"CODE_VERSION": 2}
    overwrite(job, status=Status.READY, retry_at=None)
    with InlineWorker("queueapp.Versioned") as worker:
        worker.run()
    assert fresh(job).status == Status.DONE


def test_many_in_front_keep_nothing_waiting_that_can_run():
    Versioned.objects.enqueue_many([{} for _ in range(7)], min_version=2)
    ours = Versioned.objects.create(min_version=1)
    # Each claim takes two: in one go it comes to what is behind them.
    assert [job.pk for job in Versioned.objects.claim(2)] == [ours.pk]


def test_a_claim_gives_up_after_many_rounds_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(versions, "ROUNDS_MAX", 2)
    Versioned.objects.enqueue_many([{} for _ in range(5)], min_version=2)
    Versioned.objects.create(min_version=1)
    assert Versioned.objects.claim(2) == []
    assert len(Versioned.objects.claim(2)) == 1


@pytest.mark.parametrize(("age", "least", "most"), [(0, 5, 10), (100, 40, 60), (10_000, 290, 300)])
def test_it_waits_the_longer_the_longer_it_has_waited(age, least, most):
    job = Versioned.objects.create(min_version=2)
    overwrite(job, created_at=DbNow(-age))
    Versioned.objects.claim()
    assert least <= seconds_left(job) <= most


def test_what_a_hand_wrote_there_holds_nothing_back():
    job = Versioned.objects.create(min_version=2)
    job.min_version = "nonsense"
    assert versions.needs(job) == 0
    assert versions.needs(Note()) == 0


def test_a_column_of_that_name_that_holds_no_number_is_an_error():
    class Worded(Job):
        min_version = models.CharField(max_length=10)

        class Meta(Job.Meta):
            app_label = "queueapp"

    try:
        assert [one.id for one in check_table(Worded)] == ["dbqueue.E020"]
    finally:
        del apps.all_models["queueapp"]["worded"]
        apps.clear_cache()
    assert check_table(Versioned) == []


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_version_out_of_its_limits_is_refused(settings, number):
    settings.DBQUEUE = {"CODE_VERSION": number}
    Versioned.objects.create()
    with pytest.raises(ImproperlyConfigured, match=r"\['CODE_VERSION'\] must be at least 0 and"):
        Versioned.objects.claim()


def test_it_is_told_which_code_a_job_waits_for_and_which_there_is():
    job = Versioned.objects.create(min_version=3)
    Versioned.objects.claim()
    a_worker(serves=["queueapp.versioned"], code_version=1)
    a_worker(serves=["queueapp.versioned:default"], code_version=2)
    a_worker(serves=["queueapp.note"], code_version=9)
    a_worker(serves=["queueapp.versioned"], code_version=9, beat_at=DbNow(-600))
    words = " ".join(explain(table(Versioned), job.pk).sentences)
    assert "put off by older code" in words
    held = "held back for code of version 3 or newer (its min_version)"
    assert f"It is {held}: the newest living worker that serves it has 2." in words
    assert held in dbqueue("explain", "queueapp.Versioned", job.pk)
    assert {one["code_version"] for one in as_json("workers")["workers"]} == {1, 2, 9}
    Worker.objects.filter(code_version=1).update(code_version=3)
    words = " ".join(explain(table(Versioned), job.pk).sentences)
    assert "which 1 of 2 living workers have" in words
