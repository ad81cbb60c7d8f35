"""How many functions a job that does nothing calls in its runner: what grows here is felt by all.

Unlike seconds, these are the same on every machine. tests/worker/test_cost.py compares the seconds.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from django_dbqueue.testing import InlineWorker
from tests.queueapp.models import Kept

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]

JOBS = 200
# Of Python's functions and of C's; a few are left for other Pythons.
MOST = 51


@pytest.fixture
def inline():
    Kept.objects.enqueue_many([{}] * JOBS)
    with InlineWorker("queueapp.kept", "--batch-size", str(JOBS)) as inline:
        inline.beat()
        yield inline
        inline.record()


def test_a_runner_calls_few_functions_for_a_job_that_another_thread_has_claimed(inline):
    inline.claim()
    buffer = inline.consumer.buffer
    items = [buffer.get() for _ in range(len(buffer))]
    with ThreadPoolExecutor(1) as runner:
        assert len(items) == JOBS
        runner.submit(run_and_count, inline, items[:10]).result()
        count = runner.submit(run_and_count, inline, items[10:]).result()
        runner.submit(connections.close_all).result()
    assert count / (JOBS - 10) <= MOST


def run_and_count(inline, items):
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        for item in items:
            inline.take(item)
    finally:
        sys.setprofile(None)
    return count
