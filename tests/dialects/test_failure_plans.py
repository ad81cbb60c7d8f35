"""Failures are found, counted, listed and retried by their index, next to 200,000 finished jobs and
20,000 buried ones of which nine in ten failed alike; with --full five times as many."""

import copy
import re
import time
from datetime import timedelta

import pytest
from django.db.models import F, QuerySet
from django.utils import timezone

from django_dbqueue.admin.tabs import count_failed
from django_dbqueue.metrics import counts
from django_dbqueue.monitor.failures import choice_of, clock, failures, groups_of, look
from django_dbqueue.operate.acting import CANCEL, KICK, Progress
from django_dbqueue.operate.choice import Choice
from django_dbqueue.operate.keyset import keyset_of
from django_dbqueue.operate.walking import chunks
from django_dbqueue.states import Status
from django_dbqueue.worker.served import Served
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows, last_key
from tests.kit.query_plans import (
    Statement,
    big_rows,
    captured,
    complaints,
    steps,
    update_statistics,
)
from tests.queueapp.models import Big

pytestmark = pytest.mark.proof

SERVED = Served(Big, "default")
BIG = Big._meta.db_table
MANY, FEW, RETRYING = "a" * 12, "b" * 12, "c" * 12
FEW_JOBS = 300


@pytest.fixture(scope="module", autouse=True)
def _big_table(request, django_db_setup, django_db_blocker):
    rows = big_rows(full=request.config.getoption("--full"))
    with django_db_blocker.unblock():
        fill(rows)
        yield
        truncate(BIG)


def fill(rows):
    """Which failed when is all mixed up."""
    now = timezone.now()
    done = {"status": Status.DONE, "finished_at": now, "retry_at": now + timedelta(hours=1)}
    retrying = {"status": Status.DELAYED, "retry_at": now + timedelta(hours=1), "attempts": 1}
    failed = {"status": Status.BURIED, "attempts": 3}
    few = max(1, FEW_JOBS * 1000 // rows)
    made = [Big(**done) for _ in range(1000)] + [Big(**retrying, failure=RETRYING)] * 2
    made += [Big(**failed, failure=MANY)] * 100 + [Big(**failed, failure=FEW)] * few
    QuerySet[Big](Big).bulk_create(map(copy.copy, made))
    first = f"id <= {last_key(Big)} AND status"
    for part in range(rows // 1000 - 1):
        at = now - timedelta(seconds=300 + part)
        copy_rows(Big, f"{first} <> {Status.BURIED:d}", 1002)
        copy_rows(Big, f"{first} = {Status.BURIED:d}", 100 + few, finished_at=at, failed_at=at)
    QuerySet(Big).filter(status=Status.BURIED, failed_at=None).update(failed_at=now)
    update_statistics(BIG)


def assert_good(statements, at_least):
    """What is capped may be sorted: it is a bounded number of rows."""
    found = [Statement(_inner(one.sql), one.params) for one in statements]
    assert len(found) >= at_least
    assert [text for one in found for text in complaints(one, BIG)] == []


def _inner(sql):
    inner = re.search(r"FROM \((SELECT .*)\) AS capped", sql)
    return inner[1] if inner else sql


def test_kinds_are_counted_by_their_index(monkeypatch):
    with captured(BIG) as statements:
        found = failures([SERVED]).groups
        monkeypatch.setattr(counts, "FAILED_MAX", 1000)
        capped = failures([SERVED]).groups
    by_name = {one.here.buried for one in found}
    assert QuerySet(Big).filter(failure=FEW).count() in by_name
    assert any(one.here.is_at_least for one in capped)
    # The sums over what is capped have parameters of their own in front.
    asked = [one for one in statements if not one.sql.startswith("SELECT failure, SUM(")]
    assert_good(asked, at_least=6)


@pytest.mark.parametrize("name", [MANY, FEW, RETRYING])
@pytest.mark.parametrize("asked", [{}, {"queue": "default"}, {"attempts": 9}])
@pytest.mark.parametrize("status", [None, Status.DELAYED, Status.BURIED])
def test_a_list_reads_what_it_shows(name, status, asked):
    """Or, where more is asked than the index knows, a window of it."""
    rows = QuerySet(Big).filter(failure=name, **asked)
    keyset = keyset_of(rows, status)
    reads = [lambda: keyset.page(50), lambda: keyset.page(50, backwards=True), keyset.count]
    reads.append(lambda: count_failed(rows))
    assert [took for read in reads if (took := steps(read, BIG)) > 5 * 1000] == []


@pytest.mark.parametrize("asked", [{}, {"queue": "default"}, {"attempts": 9}])
@pytest.mark.parametrize("seconds", [None, 450])
def test_what_failed_is_read_by_when_it_failed(asked, seconds):
    """That of the last minutes, most of them, is the beginning of the same index."""
    rows = QuerySet(Big).filter(**asked)
    if seconds is not None:
        newest = QuerySet(Big).order_by(F("failed_at").desc(nulls_last=True))[0].failed_at
        rows = rows.filter(failed_at__gte=newest - timedelta(seconds=seconds))
    keyset = keyset_of(rows, Status.BURIED)
    reads = [lambda: keyset.page(50), lambda: keyset.page(50, backwards=True), keyset.count]
    assert [took for read in reads if (took := steps(read, BIG)) > 5 * 1000] == []
    times = [job.failed_at for job in keyset.page(50).rows]
    assert times == sorted(times, reverse=True)
    assert len(times) == (0 if "attempts" in asked else 50)


@pytest.mark.parametrize("asked", [{}, {"failure": MANY}, {"queues": ("default",)}])
@pytest.mark.parametrize("age", ["older_than", "newer_than"])
def test_the_command_line_reads_by_when_it_failed(asked, age):
    """What failed before all of these, or after them: nothing."""
    newest, oldest = (
        QuerySet(Big).filter(status=Status.BURIED).order_by(order)[0].failed_at
        for order in ("-failed_at", "failed_at")
    )
    now, most = clock(SERVED), 5 * 1000
    seconds = (now - oldest).total_seconds() + 60
    if age == "newer_than":
        seconds = max(0, (now - newest).total_seconds() - 60)

    def read():
        for keyset in Choice(**asked, **{age: seconds}).keysets(SERVED, {Status.BURIED}):
            assert not keyset.page(500).rows
            assert not list(chunks(keyset.as_of_now(), 500))

    assert steps(read, BIG) <= most


def test_what_is_needed_of_the_index_is_none_of_the_rows():
    """Neither is sorted: the first page and the last one of all that failed."""
    keyset = keyset_of(QuerySet(Big), Status.BURIED)
    with captured(BIG) as statements:
        keyset.page(50)
        keyset.page(50, backwards=True)
        keyset.count()
    assert_good(statements, at_least=3)


@pytest.mark.parametrize("verb", [KICK, CANCEL])
def test_jobs_of_a_kind_are_chosen_by_the_index_and_written_by_key(verb):
    before = QuerySet(Big).filter(failure=FEW).count()
    until = clock(SERVED)
    progress = Progress(verb, limit=100)
    with captured(BIG) as statements:
        for keyset in choice_of(FEW, until).keysets(SERVED, verb.sources):
            progress.do(keyset)
    assert progress.taken == 100
    assert QuerySet(Big).filter(failure=FEW).count() == before - 100
    assert_good([s for s in statements if "FOR UPDATE" not in s.sql], at_least=2)


def test_all_states_of_a_kind_are_counted_for_a_question():
    keysets = list(Choice(failure=RETRYING).keysets(SERVED, CANCEL.sources))
    assert sum(one.count().number for one in keysets) >= 300
    assert [took for one in keysets if (took := steps(one.count, BIG)) > 5 * 1000] == []


def test_the_page_costs_what_its_kinds_do():
    groups_of(SERVED, look(SERVED), ())
    began = time.perf_counter()
    groups_of(SERVED, look(SERVED), ())
    print(f"\nthe failures of a table: {(time.perf_counter() - began) * 1000:.0f} ms")
