"""All jobs of a table are counted by its indexes, in statements that read a bounded number of
entries each: 200,000 jobs, of which nine in ten are in one queue; with --full five times as many.
"""

import re
import time

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.metrics import walks
from django_dbqueue.metrics.numbers import Numbers
from django_dbqueue.models import QueueCount, TableCount
from django_dbqueue.states import Status
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows, last_key
from tests.kit.counting import count_all, real, stored
from tests.kit.jobs import table
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

BIG = Big._meta.db_table
STEP = 5_000
# Of a hundred jobs.
SHARES = {
    Status.DONE: 50,
    Status.DELAYED: 20,
    Status.READY: 20,
    Status.BURIED: 9,
    Status.CLAIMED: 1,
}


@pytest.fixture(scope="module", autouse=True)
def _big_table(request, django_db_setup, django_db_blocker):
    rows = big_rows(full=request.config.getoption("--full"))
    with django_db_blocker.unblock():
        fill(rows)
        yield
        QueueCount.objects.all().delete()
        TableCount.objects.all().delete()
        truncate(BIG)


def fill(rows):
    """Which queue and state each has is all mixed up."""
    now = timezone.now()
    states = [status for status, share in SHARES.items() for _ in range(share)]
    made = []
    for number in range(2_000):
        status = states[number * 37 % 100]
        moves = now if status in {Status.CLAIMED, Status.DELAYED, Status.DONE} else None
        queue = "large" if number % 10 else f"q{number % 7}"
        made.append(Big(queue=queue, status=status, retry_at=moves))
    QuerySet[Big](Big).bulk_create(made)
    last = last_key(Big)
    for _ in range(rows // 2_000 - 1):
        copy_rows(Big, f"id <= {last}", 2_000)
    update_statistics(BIG)


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setattr(walks, "ROWS_FIRST", STEP)
    monkeypatch.setattr(walks, "ROWS_MAX", STEP)
    # As on the connection of an agent.
    table(Big).dialect.keep_to_indexes()
    yield
    connection.close()


@pytest.mark.usefixtures("bounded")
def test_each_statement_reads_an_index_and_no_more_of_it_than_it_should():
    with captured(BIG) as statements:
        count_all(Big)
    assert stored(Big) == real(Big)
    # What is limited may be added up in any way: it is a bounded number of rows.
    inner = re.compile(r"FROM \((SELECT .*)\) AS step")
    looks = [(inner.search(one.sql), one) for one in statements]
    found = [Statement(match[1], one.params) if match else one for match, one in looks]
    # The first rows by key, of all states, are limited by nothing but their number.
    found = [one for one in found if "WHERE 1 = 1 ORDER BY" not in one.sql]
    assert len(found) > 2 * sum(real(Big).values()) / STEP
    assert [text for one in found for text in complaints(one, BIG)] == []


@pytest.mark.usefixtures("bounded")
def test_what_a_count_reads_does_not_grow_with_each_of_its_steps():
    """To each row it comes twice: to find the place where a step ends, and to count."""
    rows = sum(real(Big).values())
    took = steps(lambda: count_all(Big), BIG)
    print(f"\n{took / rows:.1f} reads for each of {rows:,} jobs")
    assert took < 12 * rows


@pytest.mark.skipif(connection.vendor != "mysql", reason="the others compare rows")
@pytest.mark.usefixtures("bounded")
def test_no_equality_leads_to_where_a_step_ends():
    """Of ten million rows MariaDB believed that those after the fourth million were as many, so it
    read all of them from the first one on, for each step: 0.8 s instead of 0.2 ms."""
    with captured(BIG) as statements:
        count_all(Big)
    places = [one.sql for one in statements if "OFFSET" in one.sql]
    assert len(places) > sum(real(Big).values()) / STEP
    assert [sql for sql in places if "status =" in sql] == []


def test_who_looks_reads_a_bounded_part_of_the_table():
    count_all(Big)
    numbers = Numbers(table(Big))
    names = {"large", *(f"q{number}" for number in range(7))}

    def look():
        numbers = Numbers(table(Big))
        return {(name, status): numbers.of(status, name) for name in names for status in SHOWN}

    began = time.perf_counter()
    found = look()
    print(f"\na look: {(time.perf_counter() - began) * 1000:.0f} ms")
    assert {place: one.number for place, one in found.items() if one.number} == {
        place: jobs for place, jobs in real(Big).items() if place[1] in SHOWN
    }
    assert numbers.names() == names
    assert steps(look, BIG) < 30_000


SHOWN = [status for status in Status if status != Status.DONE]
