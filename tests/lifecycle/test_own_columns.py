"""Columns of a queue table's own that go before its policy, whatever the database calls them."""

import pytest
from django.db import Error, connection, models
from django.test.utils import isolate_apps

from django_dbqueue.diagnose import explain
from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.holder import fail
from django_dbqueue.models import KeyedJob
from django_dbqueue.states import Status
from tests.kit.jobs import column_gone, fresh, overwrite, reap_overdue, reap_owner, table

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def order():
    """A queue table whose fields have other names than their columns."""
    with isolate_apps("tests.queueapp"):

        class Order(KeyedJob):
            max_attempts = models.IntegerField(null=True, db_column="tries")
            overdue_pauses = models.TextField(null=True, db_column="pauses")
            min_version = models.PositiveBigIntegerField(default=0, db_column="needs")

            class Meta(KeyedJob.Meta):
                app_label = "queueapp"

    with connection.schema_editor() as editor:
        editor.create_model(Order)
    try:
        yield Order
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Order)


def test_a_jobs_own_number_of_attempts_counts_when_its_time_is_over(order):
    once, again = (order.objects.create(max_attempts=tries) for tries in (1, 2))
    assert len(claim(table(order), "default", 2, "w1.1")) == 2
    for job in (once, again):
        overwrite(job, retry_at=DbNow(-1))
    assert reap_overdue(table(order)) == 2
    assert [fresh(job).status for job in (once, again)] == [Status.BURIED, Status.DELAYED]


def test_a_jobs_own_pauses_are_kept_when_its_time_is_over(order):
    job = order.objects.create(overdue_pauses="[]")
    claim(table(order), "default", 1, "w1.1")
    overwrite(job, retry_at=DbNow(-1))
    assert reap_overdue(table(order)) == 1
    assert fresh(job).status == Status.BURIED


def test_what_a_dead_worker_held_is_given_back(order):
    job = order.objects.create()
    claim(table(order), "default", 1, "w1.1")
    assert reap_owner(table(order), "w1") == 1
    assert fresh(job).status == Status.READY


def test_it_is_told_which_code_a_job_waits_for(order):
    job = order.objects.create(min_version=7)
    words = " ".join(explain(table(order), job.pk).sentences)
    assert "version 7 or newer" in words


def test_a_claim_is_given_back_though_a_column_is_gone(order):
    job = order.objects.create(concurrency_key="a")
    with column_gone(order, "tries"), pytest.raises(Error, match="tries"):
        claim(table(order), "default", 1, "w1.1")
    assert (fresh(job).status, fresh(job).attempts) == (Status.READY, 0)


@pytest.mark.parametrize("column", ["tries", "pauses"])
def test_what_a_dead_worker_held_is_given_back_though_a_column_is_gone(order, column):
    job = order.objects.create()
    claim(table(order), "default", 1, "w1.1")
    with column_gone(order, column):
        assert reap_owner(table(order), "w1") == 1
    assert fresh(job).status == Status.READY


def test_a_failure_is_recorded_though_a_column_is_gone(order):
    order.objects.create()
    [job] = claim(table(order), "default", 1, "w1.1")
    with column_gone(order, "pauses"):
        fail(table(order), job, ValueError("no such luck"))
    assert fresh(job).status == Status.DELAYED
