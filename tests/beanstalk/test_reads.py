"""What the server reads of many tubes grows with what it is to find, not with what they hold."""

import pytest
from django.db.models import QuerySet

from django_dbqueue.beanstalk import rows
from django_dbqueue.beanstalk.models import TubeJob
from tests.kit.connections import truncate
from tests.kit.copied_rows import copy_rows
from tests.kit.jobs import table
from tests.kit.query_plans import steps, update_statistics

pytestmark = pytest.mark.usefixtures("db_rows")

JOBS, TUBES = 9_000, 30
NAMES = [f"t{number}" for number in range(TUBES)]


@pytest.mark.parametrize("limit", [1, 3])
def test_a_look_at_many_tubes_reads_the_first_jobs_of_each(limit):
    """One of them has nine jobs of ten."""
    truncate(TubeJob._meta.db_table)
    QuerySet[TubeJob](TubeJob).bulk_create([TubeJob(queue=name) for name in NAMES])
    for _ in range(JOBS // 10 // TUBES):
        copy_rows(TubeJob, "id > 0", TUBES)
    for _ in range(9):
        copy_rows(TubeJob, "queue <> 't0'", JOBS // 9, queue="t0")
    update_statistics(TubeJob._meta.db_table)
    limits = dict.fromkeys(NAMES, limit)

    def look():
        return rows.ready(table(TubeJob), limits)

    assert {name: len(found) for name, found in look().items()} == limits
    assert steps(look, TubeJob._meta.db_table) < JOBS
