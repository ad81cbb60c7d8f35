"""Concurrency keys: so many of one key are claimed at once, whatever becomes of them."""

import time
from contextlib import closing
from functools import partial
from threading import Event

import pytest
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.db.models import F, QuerySet, Value
from django.test.utils import isolate_apps

from django_dbqueue.dialects import dialect_of
from django_dbqueue.lifecycle import keyed_claim, reap
from django_dbqueue.lifecycle.key_wakeup import wake_forgotten
from django_dbqueue.models import KeyedJob
from django_dbqueue.states import Status
from django_dbqueue.testing import hidden_transaction
from tests.kit.bounds import limits
from tests.kit.connections import other_connection
from tests.kit.jobs import fresh, overwrite, reap_overdue, reap_owner, reaper, start_all, table
from tests.kit.waiting import wait_until
from tests.queueapp.models import ArchivedShared, Ordered, Shared

pytestmark = pytest.mark.usefixtures("db_rows")


def make(count, tenant="a", model=Shared, **columns):
    return [model.objects.create(tenant=tenant, **columns) for _ in range(count)]


def claim(limit=10, model=Shared, **options):
    return model.objects.claim(limit=limit, **options)


def keys(jobs):
    return [job.pk for job in jobs]


def parked(model=Shared):
    return [job.pk for job in model.objects.order_by("pk") if job.waits_for_key]


def test_no_more_of_a_key_are_claimed_than_its_limit():
    jobs = make(5)
    assert keys(claim()) == keys(jobs[:2])
    assert claim() == []
    assert parked() == keys(jobs[2:])


def test_other_keys_and_jobs_without_one_go_on():
    make(5)
    others = make(2, "b") + make(3, "")
    assert len(claim(limit=2)) == 2
    assert keys(claim()) == keys(others)


def test_what_waits_for_its_key_is_found_behind_many_of_a_blocked_one():
    Shared.objects.bulk_create(Shared(tenant="a") for _ in range(1200))
    last = make(1, "b")
    assert len(claim(limit=2)) == 2
    assert keys(claim(limit=1)) == keys(last)


def test_a_job_without_a_key_is_not_held_up():
    make(5, "")
    assert len(claim()) == 5


ENDS = {
    "complete": lambda job: job.complete(),
    "fail": lambda job: job.fail("no"),
    "release": lambda job: job.release(60),
    "bury": lambda job: job.bury("no"),
    "cancel": lambda job: Shared.objects.filter(pk=job.pk).cancel(),
    "bury by hand": lambda job: Shared.objects.filter(pk=job.pk).bury(),
    "overdue": lambda job: (
        overwrite(job, retry_at=job.created_at),
        reap_overdue(table(Shared)),
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_slot_is_free_as_soon_as_a_claim_ends(end):
    jobs = make(4)
    first, _ = claim()
    assert claim() == []
    end(first)
    woken = Shared.objects.ready().filter(pk=jobs[2].pk)
    assert woken.exists()
    assert keys(claim(limit=1)) == [jobs[2].pk]
    assert claim() == []


@pytest.mark.parametrize("lost", [1, 2])
def test_the_jobs_of_a_lost_worker_get_their_slots_back(lost):
    jobs = make(4)
    held = claim()
    for job in held[:lost]:
        overwrite(job, owner="gone.1")
    assert claim() == []
    assert reap_owner(table(Shared), "gone.") == lost
    assert keys(claim()) == keys(held[:lost])
    assert parked() == keys(jobs[2:])


def test_a_claim_whose_answer_was_lost_gives_its_slots_back():
    jobs = make(4)
    held = claim()
    assert claim() == []
    assert len(reap.give_back(table(Shared), held[0].owner)) == 2
    assert keys(claim()) == keys(jobs[:2])


def test_the_slot_of_a_deleted_row_is_free_after_a_pass_of_the_reaper():
    jobs = make(4)
    first, _ = claim()
    assert claim() == []
    QuerySet(Shared).filter(pk=first.pk).delete()
    reaper(Shared).turn(lambda: True)
    assert keys(claim()) == [jobs[2].pk]


def test_a_lost_wakeup_is_made_up_for_whatever_the_number_of_keys():
    for tenant in ("a", "b", "c"):
        make(3, tenant)
    held = claim(limit=9)
    assert (len(held), claim()) == (6, [])
    QuerySet(Shared).filter(pk__in=keys(held)).delete()
    assert wake_forgotten(table(Shared)) == (3, "")
    assert len(claim()) == 3


def test_a_claim_that_ended_while_another_was_parking_leaves_nothing_asleep(monkeypatch):
    make(3)
    first, _ = claim(limit=2)
    look = keyed_claim._look

    def look_and_be_late(*args):
        judged = look(*args)
        if judged.blocked and fresh(first).status == Status.CLAIMED:
            start_all(first.complete) if connection.vendor != "sqlite" else None
        return judged

    monkeypatch.setattr(keyed_claim, "_look", look_and_be_late)
    if connection.vendor == "sqlite":
        pytest.skip("nobody writes while somebody looks")
    assert len(claim()) == 1


def test_a_slot_is_not_free_before_the_transaction_that_ends_its_claim_commits():
    make(3)
    first, _ = claim(limit=2)
    claim()
    with transaction.atomic():
        first.complete()
        assert parked()
    assert not parked()


def test_many_claimers_at_once_never_claim_more_than_the_limit():
    Shared.objects.bulk_create(Shared(tenant=f"t{n % 3}") for n in range(60))
    found = [job for jobs in start_all(*[lambda: claim(limit=7)] * 6) for job in jobs]
    found += claim(limit=60)
    counts = {tenant: sum(job.tenant == tenant for job in found) for tenant in ("t0", "t1", "t2")}
    assert counts == {"t0": 2, "t1": 2, "t2": 2}


def test_a_job_may_have_a_key_and_a_limit_of_its_own():
    make(4, concurrency_key="x", concurrency_limit=3)
    assert len(claim()) == 3


def test_the_limit_of_one_queue_may_be_another(settings):
    settings.DBQUEUE = {"QUEUES": {"queueapp.shared:slow": {"concurrency_limit": 1}}}
    make(3, queue="slow")
    make(3)
    assert len(claim(queue="slow")) == 1
    assert len(claim()) == 1


def test_a_parked_job_can_be_cancelled_and_is_archived_with_its_key():
    make(3)
    claim()
    claim()
    Shared.objects.filter(pk__in=parked()).cancel()
    assert ArchivedShared.objects.get().concurrency_key == "a"


def test_a_kicked_job_waits_for_its_key_once_more():
    make(3)
    claim()
    claim()
    assert Shared.objects.filter(pk__in=parked()).kick().changed == 1
    assert claim() == []
    assert len(parked()) == 1


def test_the_most_urgent_of_a_key_is_woken_first():
    make(2)
    first, _ = claim()
    make(2)
    urgent = make(1, priority=0)
    assert claim() == []
    first.complete()
    assert keys(claim()) == keys(urgent)


def test_many_rows_get_their_keys():
    Shared.objects.enqueue_many([{"tenant": "a"}, {"tenant": "b"}])
    Shared.objects.bulk_create([Shared(tenant="c")])
    found = Shared.objects.order_by("pk").values_list("concurrency_key", flat=True)
    assert list(found) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"concurrency_key": "x" * 201}, "concurrency_key"),
        ({"concurrency_key": "x", "concurrency_limit": 0}, "concurrency_limit"),
        ({"concurrency_key": "x", "key_order": "some"}, "key_order"),
        ({"tenant": "a\n"}, "concurrency_key"),
    ],
)
def test_bad_keys_are_refused_and_nothing_is_written(columns, field):
    with pytest.raises(ValidationError) as caught:
        Shared.objects.create(**columns)
    assert field in caught.value.message_dict
    assert not Shared.objects.exists()


@isolate_apps("tests.queueapp")
@pytest.mark.parametrize("enqueue", ["enqueue", "enqueue_many", "bulk_create"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("concurrency_limit", 0),
        ("concurrency_limit", 2**31),
        ("concurrency_limit", True),
        ("key_order", "some"),
        ("key_order", "fifo"),
        ("concurrency_key", "x" * 201),
        ("concurrency_key", ""),
    ],
)
def test_each_way_into_a_table_without_a_policys_key_refuses_bad_ones(enqueue, field, value):
    class Unruled(KeyedJob):
        class Meta(KeyedJob.Meta):
            app_label = "queueapp"

    columns = {"concurrency_key": "x", field: value}
    ways = {
        "enqueue": lambda: Unruled.objects.enqueue(**columns),
        "enqueue_many": lambda: Unruled.objects.enqueue_many([columns, columns]),
        "bulk_create": lambda: Unruled.objects.bulk_create([Unruled(**columns)]),
    }
    with pytest.raises(ValidationError) as caught:
        ways[enqueue]()
    assert set(caught.value.message_dict) == {field}


# In order


def ordered(count, tenant="a", **columns):
    return make(count, tenant, Ordered, **columns)


def test_one_of_a_key_at_a_time_in_the_order_of_ids_whatever_the_priority():
    jobs = [*ordered(2), *ordered(1, priority=0)]
    found = []
    for _ in jobs:
        [job] = claim(model=Ordered)
        assert claim(model=Ordered) == []
        found.append(job.pk)
        job.complete()
    assert found == keys(jobs)


def test_a_head_that_waits_for_its_retry_blocks_its_followers():
    jobs = ordered(3)
    others = ordered(1, "b")
    [head, _] = claim(model=Ordered)
    head.fail("no")
    assert claim(model=Ordered) == []
    overwrite(head, retry_at=head.created_at)
    reaper(Ordered).turn(lambda: True)
    assert keys(claim(model=Ordered)) == [jobs[0].pk]
    assert len(others) == 1


def test_a_buried_head_blocks_until_it_is_cancelled():
    jobs = ordered(2)
    [head] = claim(model=Ordered)
    head.bury("no")
    assert claim(model=Ordered) == []
    Ordered.objects.buried().cancel()
    assert keys(claim(model=Ordered)) == [jobs[1].pk]


def test_a_head_may_be_skipped():
    jobs = ordered(3, key_order="skip")
    [head] = claim(model=Ordered)
    head.fail("no")
    [second] = claim(model=Ordered)
    second.bury("no")
    assert keys([second, *claim(model=Ordered)]) == keys(jobs[1:])


def test_the_followers_of_a_buried_head_may_be_buried_with_a_reason():
    jobs = ordered(3, key_order="fail")
    others = ordered(1, "b", key_order="fail")
    [head] = claim(model=Ordered, limit=1)
    assert keys(claim(model=Ordered)) == keys(others)
    head.bury("no")
    assert claim(model=Ordered) == []
    followers = [fresh(job) for job in jobs[1:]]
    assert {job.status for job in followers} == {Status.BURIED}
    assert all(str(head.pk) in job.last_error for job in followers)


def test_many_claimers_keep_the_order():
    Ordered.objects.bulk_create(Ordered(tenant=f"t{n % 3}") for n in range(30))
    seen = {"t0": [], "t1": [], "t2": []}

    def work():
        for _ in range(200):
            for job in claim(model=Ordered, limit=2):
                seen[job.tenant].append(job.pk)
                job.complete()

    start_all(*[work] * 4)
    assert sum(map(len, seen.values())) == 30
    assert all(found == sorted(found) for found in seen.values())


# The lock


@pytest.mark.skipif("connection.vendor == 'sqlite'", reason="there the database itself is the lock")
def test_a_claimer_that_is_frozen_in_the_middle_of_a_claim_holds_up_the_others_for_a_moment():
    make(1)
    claim()
    make(1)
    with closing(other_connection()) as other:
        dialect_of(other).end_silent_transactions(1)
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT id FROM dbqueue_queue FOR UPDATE")
            wait_until(lambda: len(claim()) == 1, 30)


REPEATABLE_READ = {
    "mysql": "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
}


def read_repeatably():
    with connection.cursor() as cursor:
        if statement := REPEATABLE_READ.get(connection.vendor):
            cursor.execute(statement)


def read_what_was():
    """The same, and what has changed since the snapshot is no error, as on MariaDB from 11.6."""
    read_repeatably()
    with connection.cursor() as cursor:
        cursor.execute("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")
        if cursor.fetchone():
            cursor.execute("SET SESSION innodb_snapshot_isolation = OFF")


def claim_in_repeatable_read(**options):
    read_repeatably()
    return claim(**options)


def test_a_claimer_that_waited_counts_what_was_claimed_meanwhile(monkeypatch):
    for queue in ("a", "b"):
        make(1, queue=queue, concurrency_limit=1)
    judge = keyed_claim._judge

    def judge_slowly(*args):
        judged = judge(*args)
        time.sleep(0.2)
        return judged

    monkeypatch.setattr(keyed_claim, "_judge", judge_slowly)
    claimers = (partial(claim_in_repeatable_read, queue=queue) for queue in ("a", "b"))
    assert sum(map(len, start_all(*claimers))) == 1


def test_so_does_one_of_repeatable_read_that_waited_for_one_of_read_committed(monkeypatch):
    for queue in ("a", "b"):
        make(1, queue=queue, concurrency_limit=1)
    judge, has_begun = keyed_claim._judge, Event()

    def judge_slowly(*args):
        judged = judge(*args)
        has_begun.set()
        time.sleep(0.3)
        return judged

    def claim_meanwhile():
        assert has_begun.wait(20)
        return claim_in_repeatable_read(queue="b")

    monkeypatch.setattr(keyed_claim, "_judge", judge_slowly)
    assert sum(map(len, start_all(partial(claim, queue="a"), claim_meanwhile))) == 1


def test_a_claim_of_repeatable_read_without_autocommit_keeps_the_limit():
    make(3)
    read_repeatably()
    transaction.set_autocommit(False)
    try:
        assert len(claim()) == 2
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)


def test_so_does_one_within_the_transaction_of_a_test_case():
    read_repeatably()
    block = transaction.atomic()
    vars(block)["_from_testcase"] = True  # as TestCase does
    with block:
        make(3)
        with hidden_transaction():
            assert len(claim()) == 2


def test_many_claimers_of_repeatable_read_never_claim_more_than_the_limit():
    for queue in "abcd":
        Shared.objects.bulk_create(Shared(tenant="a", queue=queue) for _ in range(20))
    claimers = (partial(claim_in_repeatable_read, queue=queue) for queue in "abcd")
    assert sum(map(len, start_all(*claimers))) == 2


def test_who_names_a_lane_gets_the_key_of_its_queue():
    options = {"rate": "5/s", "rate_key": "{tenant}", "concurrency_key": "of {tenant}"}
    with limits("queueapp.shared:mail", **options):
        [job] = make(1, queue="mail@a")
    assert (job.queue, job.concurrency_key) == ("mail@a", "of a")


def save_without_key(job, **options):
    job.concurrency_key = None
    job.save(**options)


def save_an_expression(job):
    job.concurrency_key = Value(None)
    job.save()


def bulk_update_without_key(job):
    job.concurrency_key = None
    Shared.objects.bulk_update([job], ["concurrency_key"])


@pytest.mark.parametrize(
    "take",
    [
        save_without_key,
        lambda job: save_without_key(job, update_fields=["concurrency_key"]),
        save_an_expression,
        bulk_update_without_key,
        lambda job: Shared.objects.filter(pk=job.pk).update(concurrency_key=None),
        lambda job: Shared.objects.filter(pk=job.pk).update(concurrency_key=Value(None)),
    ],
    ids=[
        "save",
        "save of it alone",
        "save of an expression",
        "bulk_update",
        "update",
        "update by an expression",
    ],
)
def test_a_parked_job_whose_key_is_taken_away_is_claimed(take):
    job = make(3)[2]
    claim(limit=2)
    assert claim() == []
    assert parked() == [job.pk]
    take(fresh(job))
    assert keys(claim()) == [job.pk]


def test_an_instance_that_was_read_before_its_job_was_parked_may_take_the_key_away():
    job = fresh(make(3)[2])
    claim(limit=2)
    assert claim() == []
    save_without_key(job)
    assert keys(claim()) == [job.pk]


def test_a_job_that_waits_for_its_time_goes_on_waiting_without_a_key():
    job, _ = Shared.objects.enqueue(tenant="a", delay=60)
    save_without_key(fresh(job))
    Shared.objects.update(concurrency_key=None)
    assert fresh(job).status == Status.DELAYED
    assert fresh(job).retry_at is not None


def test_a_claimed_job_stays_claimed_when_its_key_is_taken_away():
    make(1)
    [job] = claim()
    save_without_key(job)
    Shared.objects.update(concurrency_key=None)
    assert fresh(job).status == Status.CLAIMED
    job.complete()


def save_what_another_column_holds(job):
    job.concurrency_key = F("tenant")
    job.save()


EXPRESSIONS = {
    "save": save_what_another_column_holds,
    "update": lambda job: Shared.objects.update(concurrency_key=F("tenant")),
    "update with a number": lambda job: Shared.objects.update(concurrency_key=F("pk")),
}


@pytest.mark.parametrize("write", EXPRESSIONS.values(), ids=EXPRESSIONS)
@pytest.mark.parametrize("tenant", ["", "b"])
def test_a_key_that_an_expression_makes_is_none_where_it_is_empty(write, tenant):
    [job] = make(1, tenant, concurrency_key="a")
    write(fresh(job))
    expected = str(job.pk) if write is EXPRESSIONS["update with a number"] else tenant or None
    assert fresh(job).concurrency_key == expected
    assert keys(claim()) == [job.pk]


def test_a_key_that_is_empty_in_the_table_is_claimed_and_woken_as_any_other():
    jobs = make(3)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {Shared._meta.db_table} SET concurrency_key = ''")
    first, _ = claim()
    assert claim() == []
    QuerySet(Shared).filter(pk=first.pk).delete()
    assert wake_forgotten(table(Shared)) == (1, "")
    assert keys(claim()) == [jobs[2].pk]
