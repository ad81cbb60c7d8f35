"""What explain, check, status and the alerts say of jobs that wait for their concurrency key."""

import pytest
from django.db.models import QuerySet
from django.test import override_settings

from django_dbqueue.checks.policy import check_policy
from django_dbqueue.diagnose import explain
from django_dbqueue.diagnose.check import check_integrity
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.models import Worker
from django_dbqueue.monitor.alerts import alerts
from django_dbqueue.monitor.overview import overview
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served
from tests.queueapp.models import Note, Ordered, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def said(job):
    found = explain(table_of(type(job), "default"), job.pk)
    return f"{found.state}: {' '.join(found.sentences)}"


def make(count, model=Shared, **columns):
    return [model.objects.create(tenant="a", **columns) for _ in range(count)]


def test_a_job_that_waits_for_its_key_says_who_has_it():
    *_, last = make(3)
    Shared.objects.claim(limit=2)
    assert "ready: " in said(last)
    assert "It waits for its key a: 2 of 2 run." in said(last)
    assert Shared.objects.claim() == []
    assert said(last).startswith("waiting for its key: It waits for its key a: 2 of 2 run.")


def test_a_key_that_is_free_says_so():
    [job] = make(1)
    assert "Its key a is free: 0 of 2 run." in said(job)
    QuerySet(Shared).update(status=Status.DELAYED)
    assert "Its key a is free: it becomes ready within seconds." in said(job)


def test_in_order_the_one_before_is_named():
    first, second = make(2, Ordered)
    assert f"job {first.pk} comes before it" in said(second)
    [job] = Ordered.objects.claim()
    assert "It waits for its key a: 1 of 1 run." in said(second)
    job.bury("no")
    assert f"Job {first.pk} of its key a comes before it, and is buried: kick" in said(second)


def test_what_waits_for_its_key_is_no_broken_row():
    make(3)
    Shared.objects.claim(limit=3)
    Shared.objects.claim()
    assert Shared.objects.delayed().count() == 1
    assert check_integrity().findings == []
    Note.objects.create()
    QuerySet(Note).update(status=Status.DELAYED)
    assert len(check_integrity().findings) == 1


def test_it_counts_as_delayed_and_sets_off_no_alarm():
    make(3)
    Shared.objects.claim(limit=3)
    Shared.objects.claim()
    QuerySet(Shared).update(created_at=DbNow(plus=-5000))
    found = overview([Served(Shared, "default")])
    [queue] = found.queues
    assert queue.counts[Status.DELAYED] == 1
    assert "oldest ready" not in str(alerts(found))


def test_an_alarm_for_a_ready_job_says_that_it_may_have_waited_for_its_key():
    make(1)
    QuerySet(Shared).update(created_at=DbNow(plus=-5000))
    Worker.objects.create(uuid="ab" * 16, host="web1", pid=7, serves=["queueapp.shared"])
    words = str(alerts(overview([Served(Shared, "default")])))
    assert "the oldest ready job waits for 1 h 23 min, perhaps most of it for its" in words


@pytest.mark.any_database
def test_options_of_keys_on_a_table_without_them_are_an_error(settings):
    assert list(check_policy(Note)) == []
    assert list(check_policy(Shared)) == []
    settings.DBQUEUE = {"QUEUES": {"queueapp.note:big": {"concurrency_limit": 3}}}
    [error] = check_policy(Note)
    assert (error.id, "KeyedJob" in error.hint) == ("dbqueue.E019", True)


def test_a_job_that_was_buried_with_the_first_of_its_key_says_so():
    with override_settings(DBQUEUE={"QUEUES": {"queueapp.ordered": {"when_head_fails": "fail"}}}):
        first, second = make(2, Ordered)
        [job] = Ordered.objects.claim()
        job.bury("no")
        assert Ordered.objects.claim() == []
    why = f"job {first.pk} with the same key, which comes before it, is buried."
    assert why in said(second)
    assert "by hand" not in said(second)
