"""What a job costs in CPU time, with a margin for slow machines: a guard against a slide back."""

import pytest
from django.db import connection

from benchmarks.one_thread import stages
from tests.queueapp.models import Kept

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("db_rows")]

# Microseconds per no-op job: the aims, which docs/performance.md compares with what was measured.
AIM = 25 if connection.vendor == "sqlite" else 12
MARGIN = 2.5  # slower processors, and others at work beside us


def fill(jobs):
    Kept.objects.all()._raw_delete("default")
    Kept.objects.enqueue_many([{}] * jobs)


def test_a_job_that_does_nothing_costs_little_more_than_nothing():
    found = stages(Kept, fill, jobs=2000, rounds=5)
    assert Kept.objects.done().count() == 2000
    assert sum(found.values()) < MARGIN * AIM, found
