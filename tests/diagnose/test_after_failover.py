"""``dbqueue check`` where a database has lost its last commits, or went on with another clock."""

import pytest
from django.db import connection
from django.db.models import QuerySet

from django_dbqueue.diagnose import after_failover
from django_dbqueue.diagnose import check as examination
from django_dbqueue.diagnose.after_failover import receipt_findings
from django_dbqueue.diagnose.check import check_integrity
from django_dbqueue.fields import DbNow
from django_dbqueue.models import Receipt, Worker
from tests.kit.effects_elsewhere import apart, claim, jobs_aside, once
from tests.queueapp.models import Effect, Note, Transfer

pytestmark = pytest.mark.usefixtures("db_rows")
SEQUENCE = "pg_get_serial_sequence('queueapp_note', 'id')"


@pytest.fixture(autouse=True)
def looks_again_soon(settings, monkeypatch):
    monkeypatch.setattr(examination, "RECHECK_SECONDS", 0.02)
    settings.DBQUEUE = {"REAP_INTERVAL": 0.02, "WORKER_TIMEOUT": 10}


@pytest.fixture
def jobs(tmp_path):
    with jobs_aside(tmp_path) as made:
        yield made


def found():
    return {(one.id, one.what) for one in check_integrity("default").findings}


def told():
    return {(key, what) for key, what, _ in receipt_findings(apart())}


def run(job):
    once(job).run_and_complete()


def test_a_beat_from_the_future_is_told_and_one_of_now_is_not():
    Worker.objects.create(uuid="a" * 32, host="web1", pid=1, beat_at=DbNow(plus=60))
    Worker.objects.create(uuid="b" * 32, host="web1", pid=2, beat_at=DbNow(plus=5))
    Worker.objects.create(
        uuid="c" * 32, host="web1", pid=3, beat_at=DbNow(plus=60), stopped_at=DbNow()
    )
    assert found() == {("a" * 32, "has a beat from the future")}


@pytest.mark.skipif(connection.vendor != "postgresql", reason="others number above what is there")
def test_an_id_that_will_be_given_out_again_is_told():
    first, second = (Note.objects.create() for _ in range(2))
    assert found() == set()
    numbered_up_to(first.pk)
    assert found() == {(str(second.pk), "has an id that will be given out again")}
    numbered_up_to(second.pk)
    assert found() == set()


def numbered_up_to(key):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT setval({SEQUENCE}, {key})")


def test_jobs_with_their_receipts_are_clean(jobs):
    for _ in range(3):
        jobs.create()
        run(claim(jobs))
    jobs.create()
    assert told() == set()


def test_effects_of_a_job_that_its_database_has_lost_are_told(jobs):
    lost, kept = jobs.create(), jobs.create()
    run(claim(jobs))
    run(claim(jobs))
    Transfer.objects.using("aside").filter(pk=lost.pk)._raw_delete("aside")
    assert told() == {(str(lost.pk), "has left effects, and is not there")}
    assert kept.pk != lost.pk


def test_a_job_with_the_id_of_a_lost_one_is_run_all_the_same_and_told(jobs):
    lost = jobs.create()
    run(claim(jobs))
    Transfer.objects.using("aside").filter(pk=lost.pk)._raw_delete("aside")
    again = jobs.create(pk=lost.pk)
    what = "has an id that another job had, whose effects are there"
    assert told() == {(str(again.pk), what)}
    run(claim(jobs))
    assert Effect.objects.filter(job=again.pk).count() == 2
    assert Receipt.objects.count() == 2
    assert told() == set()


def test_a_job_whose_effects_the_other_database_has_lost_is_told(jobs):
    job, expired = jobs.create(), jobs.create()
    run(claim(jobs))
    run(claim(jobs))
    QuerySet(Transfer, using="aside").filter(pk=expired.pk).update(expires_at=DbNow(plus=3600))
    Receipt.objects.all().delete()
    assert told() == {(str(job.pk), "is done, and its receipt is not there")}


def test_done_jobs_are_looked_for_among_the_newest_rows_alone(jobs, monkeypatch):
    monkeypatch.setattr(after_failover, "ROWS_MAX", 2)
    old = jobs.create()
    run(claim(jobs))
    jobs.create()
    Receipt.objects.all().delete()
    assert told() == {(str(old.pk), "is done, and its receipt is not there")}
    jobs.create()
    assert told() == set()


def test_what_may_just_be_pruned_is_not_told(jobs):
    lost = jobs.create()
    run(claim(jobs))
    Transfer.objects.using("aside").filter(pk=lost.pk)._raw_delete("aside")
    Receipt.objects.update(written_at=DbNow(plus=-50_000))
    assert told() == set()
