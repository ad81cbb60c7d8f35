"""What is looked for among the minutes once a minute reads those of the last hour, next to 17 hours
of twenty queues, most of them in one table."""

import pytest
from django.db import connection

from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.metrics.backlogs import busy_lately, sample_backlogs, sampled
from django_dbqueue.metrics.recorder import this_minute
from django_dbqueue.models import Minute
from tests.kit.connections import truncate
from tests.kit.counting import count_all
from tests.kit.query_plans import steps, update_statistics
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.proof]
MINUTES = Minute._meta.db_table
QUEUES, POWER = 20, 10
LAST_HOUR = 60 * QUEUES
BUSY = [0, 1] * 9 + [1, 1]


@pytest.fixture
def minutes():
    truncate(MINUTES)
    now = this_minute("default")
    tables = ["queueapp_note"] * (QUEUES - 2) + ["queueapp_batch", "elsewhere_gone"]
    Minute.objects.bulk_create(
        Minute(job_table=name, queue=f"q{n:02}", minute=now, completed=BUSY[n], backlog=0)
        for n, name in enumerate(tables)
    )
    columns = [field.column for field in Minute._meta.fields if not field.primary_key]
    into, of = ", ".join(columns), ", ".join(columns).replace("minute", "minute - %s")
    with connection.cursor() as cursor:
        for power in range(POWER):
            sql = f"INSERT INTO {MINUTES} ({into}) SELECT {of} FROM {MINUTES}"
            cursor.execute(sql, [2**power])
    if connection.vendor != "sqlite":  # where nobody ever asks for them
        update_statistics(MINUTES)
    yield
    truncate(MINUTES)


def test_a_look_reads_the_last_hour_alone(minutes):
    assert Minute.objects.count() == QUEUES * 2**POWER
    assert len(busy_lately("default")) == 11
    assert steps(lambda: busy_lately("default"), MINUTES) < 5 * LAST_HOUR
    assert steps(lambda: sampled("default"), MINUTES) < LAST_HOUR


def test_a_busy_queue_of_another_table_is_no_queue_of_this_one(minutes):
    Minute.objects.filter(minute__gt=this_minute("default") - 2).update(backlog=None)
    count_all(Note)
    sample_backlogs([table_of(Note, "default")])
    noted = Minute.objects.filter(minute__gt=this_minute("default") - 2, backlog__isnull=False)
    assert set(noted.values_list("job_table", flat=True)) == {"queueapp_note"}
    assert set(noted.values_list("queue", flat=True)) == {f"q{n:02}" for n in range(18) if BUSY[n]}
