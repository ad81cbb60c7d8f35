"""The plans of all hot statements beside 200,000 finished and 20,000 delayed jobs, with --full five
times as many.

DBQUEUE_TEST_ROWS sets the number of finished jobs; a tenth as many are delayed.
"""

import re
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.lifecycle import (
    archive,
    holder,
    low_instants,
    low_water,
    operator,
    promotion,
    ready_queues,
)
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.execute import rows
from django_dbqueue.lifecycle.low_instants import LowInstants
from django_dbqueue.management.verbs import ProblemsFound
from django_dbqueue.monitor.report import known_queues
from django_dbqueue.operate.keyset import WINDOW_ROWS, keyset_of
from django_dbqueue.states import Status
from tests.kit.command_line import dbqueue
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows
from tests.kit.jobs import reap_overdue, reap_owner, start, table
from tests.kit.query_plans import (
    Statement,
    big_rows,
    captured,
    complaints,
    steps,
    update_statistics,
)
from tests.queueapp.models import ArchivedBig, Big, Small

pytestmark = pytest.mark.proof

BIG = Big._meta.db_table
SIZES = [1, 50, 500]  # the last is the largest chunk that is sent
READY = 600
ENDED = "owner", "finished_at", "retry_at"  # what a job has that was run


@pytest.fixture(scope="module", autouse=True)
def _big_table(request, django_db_setup, django_db_blocker):
    rows = big_rows(full=request.config.getoption("--full"))
    with django_db_blocker.unblock():
        began = time.monotonic()
        fill(rows)
        print(f"\n{rows} done and {rows // 10} delayed jobs in {time.monotonic() - began:.1f} s")
        yield
        empty(Big, ArchivedBig, Small)


@pytest.fixture(autouse=True)
def _ready_rows(_big_table, django_db_blocker):
    """Ready jobs to work with; what a test leaves is put away."""
    with django_db_blocker.unblock():
        copy_rows(
            Big, like(Status.DONE), READY, status=Status.READY, attempts=0, **dict.fromkeys(ENDED)
        )
        yield
        for status in [Status.READY, Status.CLAIMED, Status.BURIED]:
            QuerySet(Big).filter(status=status).delete()


def fill(rows):
    now = timezone.now()
    Big.objects.bulk_create(Big() for _ in range(1000))
    leaves = now + timedelta(hours=1)
    QuerySet(Big).update(
        status=Status.DONE, finished_at=now, retry_at=leaves, owner="x" * 36 + ".1", attempts=1
    )
    double(Status.DONE, rows)
    Big.objects.bulk_create(Big(retry_at=now + timedelta(hours=1, seconds=n)) for n in range(1000))
    double(Status.DELAYED, rows // 10)
    update_statistics(BIG)


def double(status, wanted):
    count = 1000
    while count < wanted:
        part = min(count, wanted - count)
        copy_rows(Big, like(status), part)
        count += part


def like(status):
    return f"status = {status:d}"


def empty(*models):
    truncate(*(model._meta.db_table for model in models))


def owned(count, owner="plan.1"):
    return claim(table(Big), "default", count, owner)


def pks(jobs):
    return [job.pk for job in jobs]


def assert_good_plans(statements, at_least=1):
    assert len(statements) >= at_least
    assert [text for statement in statements for text in complaints(statement, BIG)] == []


@pytest.mark.parametrize("size", SIZES)
def test_a_claim_reads_by_the_index_and_writes_by_key(size):
    with captured(BIG) as statements:
        assert len(owned(size)) == size
    assert_good_plans(statements)


def test_a_claim_from_a_floor_does_so_too():
    """In the middle of what is ready, and at a priority of which nothing is."""
    ready = QuerySet(Big).filter(status=Status.READY, queue="default").order_by("pk")
    middle = ready.values_list("priority", "pk")[ready.count() // 2]
    with captured(BIG) as statements:
        jobs = claim(table(Big), "default", 100, "plan.1", floors=[(0, 1), middle])
    assert len(jobs) == 100
    assert jobs[0].pk == middle[1] or connection.vendor == "sqlite"
    assert_good_plans(statements)


@pytest.mark.parametrize("ready", [0, 1, 3])
def test_a_claim_does_so_with_few_ready_rows(ready):
    QuerySet(Big).filter(status=Status.READY).delete()
    Big.objects.bulk_create(Big() for _ in range(ready))
    with captured(BIG) as statements:
        assert len(owned(50)) == ready
    assert_good_plans(statements)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("verb", [holder.complete, holder.touch, holder.release])
def test_a_batch_is_finished_by_key(verb, size):
    jobs = owned(size)
    with captured(BIG) as statements:
        assert len(verb(table(Big), "plan.1", pks(jobs)).written) == size
        verb(table(Big), "nobody", pks(jobs))
    QuerySet(Big).filter(pk__in=pks(jobs)).delete()
    assert_good_plans(statements)


def test_one_job_is_finished_by_key():
    failed, buried, expired = owned(3)
    with captured(BIG) as statements:
        failed.fail("no")
        buried.bury("no")
        holder.expire(table(Big), expired)
    QuerySet(Big).filter(pk__in=pks([failed, buried, expired])).delete()
    assert_good_plans(statements, at_least=5)


@pytest.fixture(params=["quick", "slow"])
def lows(request, monkeypatch):
    """What a reaper remembers, where whole looks are quick, and where they are slow."""
    if request.param == "slow":
        monkeypatch.setattr(low_water, "CHEAP", -1.0)
        monkeypatch.setattr(low_water, "TRIPS", 0.0)
        monkeypatch.setattr(low_instants, "LONGEST", 3600.0)
        monkeypatch.setattr(low_instants, "SHARE", 1e9)
        monkeypatch.setattr(low_instants, "SLOW_LOOKS", 1)
    return LowInstants()


def test_due_jobs_are_found_by_the_index_and_promoted_by_key(lows):
    due = QuerySet(Big).filter(status=Status.DELAYED).order_by("pk")[:500]
    keys = list(due.values_list("pk", flat=True))
    times = dict(QuerySet(Big).filter(pk__in=keys).values_list("pk", "retry_at"))
    QuerySet(Big).filter(pk__in=keys).update(retry_at=timezone.now() - timedelta(seconds=1))
    with captured(BIG) as statements:
        assert [promotion.promote(table(Big), lows.delayed) for _ in range(3)] == [500, 0, 0]
        for _ in range(3):
            left, _ = promotion.next_moves(table(Big), lows)
            assert left is None or left > 0
    QuerySet(Big).filter(pk__in=keys).update(status=Status.DELAYED, retry_at=max(times.values()))
    assert_good_plans(statements, at_least=4)


def test_overdue_jobs_are_found_by_the_index_and_ended_by_key():
    keys = pks(owned(500))
    QuerySet(Big).filter(pk__in=keys).update(retry_at=timezone.now() - timedelta(seconds=1))
    with captured(BIG) as statements:
        assert reap_overdue(table(Big)) == 500
    QuerySet(Big).filter(status=Status.DELAYED, attempts=1).delete()
    assert_good_plans(statements, at_least=2)


def test_the_jobs_of_an_owner_are_found_by_the_index_and_given_back_by_key():
    owned(500)
    with captured(BIG) as statements:
        assert reap_owner(table(Big), "plan.") == 500
    assert_good_plans(statements, at_least=2)


def test_queues_are_found_by_one_look_up_each():
    with captured(BIG) as statements:
        assert ready_queues.ready_queues(table(Big)) == ["default"]
    assert_good_plans(statements)


@pytest.mark.parametrize("command", ["status", "status --json", "monitor"])
@pytest.mark.parametrize("share", [0, 200], ids=["none buried", "200 buried"])
def test_what_people_look_at_is_counted_by_indexes(command, share):
    operator.bury(table(Big), [(job.pk, Status.CLAIMED, job.owner) for job in owned(share or 1)])
    with captured(BIG) as statements:
        with suppress(ProblemsFound):
            dbqueue(*command.split())
        known_queues(table(Big))
    # What is capped may be sorted: it is a few thousand rows.
    inner = re.compile(r"FROM \((SELECT .*)\) AS capped")
    found = []
    for one in statements:
        if match := inner.search(one.sql):
            before = one.sql[: match.start(1)].count("%s")
            params = list(one.params)[before : before + match[1].count("%s")]
            found.append(Statement(match[1], params))
        else:
            found.append(one)
    assert_good_plans(found, at_least=8)


def test_finished_jobs_are_found_and_moved_without_a_scan(lows):
    oldest = QuerySet(Big).filter(status=Status.DONE).order_by("pk")[:500]
    keys = list(oldest.values_list("pk", flat=True))
    QuerySet(Big).filter(pk__in=keys).update(retry_at=timezone.now() - timedelta(hours=2))
    with captured(BIG) as statements:
        assert [archive.archive(table(Big), lows.finished) for _ in range(3)] == [500, 0, 0]
    assert_good_plans([s for s in statements if "FOR UPDATE" not in s.sql], at_least=2)


def test_a_persons_verbs_write_by_key():
    seen = [(job.pk, Status.CLAIMED, job.owner) for job in owned(500)]
    with captured(BIG) as statements:
        assert operator.bury(table(Big), seen).changed == 500
        buried = [(pk, Status.BURIED, None) for pk, _, _ in seen]
        assert operator.kick(table(Big), buried).changed == 500
        assert operator.cancel(table(Big), [(pk, 0, None) for pk, _, _ in seen]).changed == 500
    assert_good_plans([s for s in statements if "FOR UPDATE" not in s.sql], at_least=4)


def test_a_claim_does_not_wait_for_a_lock_on_a_row_outside_its_list():
    if not connection.features.has_select_for_update:
        return  # its transactions lock the whole database
    last = Big.objects.ready().order_by("-priority", "-pk").first()
    with transaction.atomic():
        Big.objects.select_for_update().get(pk=last.pk)
        for size in [1, 10, 50]:
            took = []
            for _ in range(3):  # a lock would hold up each of them
                began = time.monotonic()
                jobs = start(lambda size=size: owned(size)).result()
                took.append(time.monotonic() - began)
                assert len(jobs) == size
            assert min(took) < 1


def test_a_claim_costs_no_more_than_in_an_empty_table():
    """The promise is 1.3; the bound here is wider, and what a busy machine adds is not there each
    time."""
    Small.objects.bulk_create(Small() for _ in range(2000))
    assert any(times_an_empty_table(run) < 1.6 for run in range(5))


def times_an_empty_table(run):
    costs = {Big: [], Small: []}
    for number in range(40):
        for model, seconds in costs.items():
            began = time.perf_counter()
            jobs = claim(table(model), "default", 10, f"cost.{run}.{number}")
            seconds.append(time.perf_counter() - began)
            assert len(jobs) == 10
    # What a busy machine adds is not in the fastest.
    big, small = (min(seconds) * 1000 for seconds in costs.values())
    print(f"\na claim of 10: {big:.2f} ms, empty table {small:.2f} ms: {big / small:.2f} times")
    return big / small


def test_a_turn_of_the_reaper_costs_next_to_nothing():
    """What every worker asks every second, with nothing to do; in statements that read nothing."""
    every: Any = [
        promotion.promote,
        promotion.next_moves,
        reap_overdue,
        archive.archive,
        archive.prune,
    ]
    for step in every:
        costs, trips = [], []
        for _ in range(25):
            began = time.perf_counter()
            step(table(Big))
            costs.append(time.perf_counter() - began)
            rows(connections["default"], "SELECT 1", [])
            trips.append(time.perf_counter() - began - costs[-1])
        cost = min(costs) / min(trips)
        print(f"\n{step.__name__}: {cost:.1f} times a statement that reads nothing", end="")
        assert cost < 20, step.__name__


@pytest.mark.parametrize("asked", [{}, {"queue": "default"}, {"queue": "rare"}, {"attempts": 9}])
@pytest.mark.parametrize("status", [None, *Status])
def test_a_list_of_the_admin_reads_a_bounded_part_of_the_table(status, asked):
    keyset = keyset_of(QuerySet(Big).filter(**asked), status)
    reads = [lambda: keyset.page(50), lambda: keyset.page(50, backwards=True), keyset.count]
    assert [took for read in reads if (took := steps(read, BIG)) > 5 * WINDOW_ROWS] == []
