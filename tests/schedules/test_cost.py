"""What a look costs, with 10,000 schedules."""

import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.schedules import firing
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, Tick
from django_dbqueue.testing import virtual_clock
from tests.kit.query_plans import judged, update_statistics
from tests.kit.schedules import START
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

MANY = 10_000
TABLE = Schedule._meta.db_table


def schedules(number):
    """Each ticks in an hour."""
    tick = START + timedelta(hours=1)
    given = {"timing": "every 1 h", "target": "queueapp.Note", "arguments": {}}
    names = (f"schedule {n}" for n in range(number))
    rows = [Schedule(name=name, next_tick=tick, next_at=tick, **given) for name in names]
    Schedule.objects.bulk_create(rows, batch_size=1000)
    update_statistics(TABLE)


def test_a_look_at_many_idle_schedules_is_one_statement_by_an_index():
    schedules(MANY)
    with virtual_clock(START) as clock:
        with CaptureQueriesContext(connection) as statements:
            assert run_due() == 0
        with judged(TABLE) as complaints:
            assert run_due() == 0
        started = time.perf_counter()
        run_due()
        print(f"a look at {MANY} idle schedules: {time.perf_counter() - started:.4f} s")
        # One that is due among them is found by the index, too.
        Schedule.objects.filter(name="schedule 7").update(next_at=START)
        clock.move(1)
        with judged(TABLE) as more:
            assert run_due() == 1
    assert len(statements) == 1
    assert complaints == []
    # What is due may be sorted, as long as nothing else is read.
    assert [one for one in more if not one.startswith("sorts")] == []


@pytest.mark.proof
def test_schedules_that_are_due_cost_two_statements_each(full):
    number = MANY if full else 3 * firing.BATCH
    schedules(number)
    statements: list[str] = []

    def note(execute, sql, *rest):
        statements.append(sql)
        return execute(sql, *rest)

    with virtual_clock(START + timedelta(hours=1)), connection.execute_wrapper(note):
        started = time.perf_counter()
        assert run_due() == number
        print(f"{number} schedules that are due: {time.perf_counter() - started:.2f} s")
    assert Note.objects.count() == Tick.objects.count() == number
    batches = number // firing.BATCH
    assert len(statements) <= 2 * number + 10 * batches + 1
