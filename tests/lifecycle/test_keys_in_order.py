"""Concurrency keys whose jobs come in order, where heads fail: a claim is brief, whatever waits."""

import re
import uuid

import pytest
from django.db import connection, connections, models
from django.test.utils import CaptureQueriesContext, isolate_apps

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import keyed_claim
from django_dbqueue.lifecycle.key_facts import find_heads
from django_dbqueue.lifecycle.key_wakeup import wake_forgotten
from django_dbqueue.models import KeyedJob
from django_dbqueue.states import Status
from tests.kit.bulk import rows
from tests.kit.jobs import fresh, overwrite, reaper, table
from tests.queueapp.models import Ordered

pytestmark = pytest.mark.usefixtures("db_rows")

FEW = 40  # statements; each round of a claim is of some ten


def make(count, **columns):
    return [Ordered.objects.create(tenant="a", **columns) for _ in range(count)]


def claim(queue="default"):
    """What a claim takes, by few statements."""
    with CaptureQueriesContext(connection) as sent:
        jobs = Ordered.objects.claim(limit=10, queue=queue)
    assert len(sent) < FEW
    return jobs


def keys(jobs):
    return [job.pk for job in jobs]


def parked():
    return [job.pk for job in Ordered.objects.order_by("pk") if job.waits_for_key]


def run_again(job):
    """Its retry is due now."""
    overwrite(job, retry_at=job.created_at)
    reaper(Ordered).turn(lambda: True)


def test_a_later_job_that_was_buried_by_hand_does_not_doom_those_before_it():
    first, second, third = make(3, key_order="fail")
    [head] = claim()
    assert claim() == []
    Ordered.objects.filter(pk=third.pk).bury()
    head.fail("no")
    assert claim() == claim() == []
    assert parked() == [second.pk]
    run_again(first)
    [head] = claim()
    assert head.pk == first.pk
    head.complete()
    assert keys(claim()) == [second.pk]


def test_jobs_that_are_kicked_out_of_a_buried_key_wait_for_their_head_again():
    first, second, third = make(3, key_order="fail")
    [head] = claim()
    head.bury("no")
    assert claim() == []
    Ordered.objects.filter(pk__in=keys([first, second])).kick()
    [head] = claim()
    assert claim() == []
    head.fail("no")
    assert claim() == claim() == []
    assert (parked(), fresh(third).status) == ([second.pk], Status.BURIED)


def test_a_key_that_failed_goes_on_once_all_of_its_buried_jobs_are_kicked_or_cancelled():
    first, second, third = make(3, key_order="fail")
    [head] = claim()
    head.bury("no")
    assert claim() == []
    Ordered.objects.filter(pk=first.pk).cancel()
    [fourth] = make(1, key_order="fail")
    assert claim() == []
    assert fresh(fourth).status == Status.BURIED
    Ordered.objects.filter(pk=second.pk).cancel()
    Ordered.objects.buried().filter(concurrency_key="a").kick()
    assert keys(claim()) == [third.pk]


def test_a_parked_job_waits_by_the_rule_of_its_own_queue(settings):
    queues = {"slow": {"when_head_fails": "block"}, "fast": {"when_head_fails": "skip"}}
    settings.DBQUEUE = {
        "QUEUES": {f"queueapp.ordered:{name}": options for name, options in queues.items()}
    }
    first, second = make(2, queue="slow")
    [urgent] = make(1, queue="fast", priority=1)
    [head] = claim("slow")
    assert claim("slow") == claim("fast") == []
    head.fail("no")
    assert claim("slow") == claim("fast") == []
    assert parked() == keys([second, urgent])
    run_again(first)
    for queue, job in [("slow", first), ("slow", second), ("fast", urgent)]:
        [head] = claim(queue)
        assert head.pk == job.pk
        head.complete()


def test_a_claim_gives_up_where_what_it_parks_is_woken_each_time(monkeypatch):
    [first] = make(1)
    [head] = claim()
    [second] = make(1)
    monkeypatch.setattr(keyed_claim, "wake", lambda *_: Ordered.objects.filter(pk=second.pk).kick())
    assert claim() == []
    monkeypatch.undo()
    head.complete()
    wake_forgotten(table(Ordered))
    assert keys(claim()) == [second.pk]
    assert fresh(first).status == Status.DONE


@pytest.fixture
def ordered_uuid():
    """A queue table of jobs in order whose keys do not grow."""
    with isolate_apps("tests.queueapp"):

        class OrderedUuid(KeyedJob):
            id = models.UUIDField(primary_key=True, default=uuid.uuid4)

            class Meta(KeyedJob.Meta):
                app_label = "queueapp"

            class Policy:
                key_order = "fifo"

        with connection.schema_editor() as editor:
            editor.create_model(OrderedUuid)
        yield OrderedUuid
        with connection.schema_editor() as editor:
            editor.delete_model(OrderedUuid)


def test_jobs_with_uuids_run_one_at_a_time_in_the_order_of_those(ordered_uuid):
    numbers = [uuid.UUID(int=number) for number in range(1, 5)]
    for number in numbers:
        priority = 7 - number.int % 2
        ordered_uuid.objects.create(id=number, concurrency_key="a", priority=priority)
    found = []
    while jobs := ordered_uuid.objects.claim(limit=10):
        found += keys(jobs)
        jobs[0].complete()
    assert found == numbers


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only its EXPLAIN says what it read")
def test_a_look_at_keys_without_failed_jobs_reads_no_others_however_many_there_are(ordered_uuid):
    rows(3000, Status.DONE, ordered_uuid)
    rows(300, Status.BURIED, ordered_uuid, concurrency_key="b")
    rows(3, Status.READY, ordered_uuid, concurrency_key="a")
    dialect_of(connections["default"]).keep_to_indexes()
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {ordered_uuid._meta.db_table}")
        with CaptureQueriesContext(connection) as sent:
            find_heads(table(ordered_uuid), ["a"])
        cursor.execute(f"EXPLAIN (ANALYZE) {sent[-1]['sql']}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert sum(map(int, re.findall(r"Rows Removed by Filter: (\d+)", plan))) < 100, plan
