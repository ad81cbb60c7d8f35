"""What a job costs in CPU time, next to a loop in plain Python: a guard against a slide back."""

import time

import pytest
from django.db import connection

from benchmarks.one_thread import stages
from tests.queueapp.models import Kept

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("db_rows")]

# Turns of a loop that take as long as a no-op job, twice: others that share a processor's caches
# slow a job down more than a loop. What grows by less is seen by test_calls_of_a_job.py.
MOST_TURNS = 1600 if connection.vendor == "sqlite" else 1100
LOOP = 200_000  # turns


def fill(jobs):
    Kept.objects.all()._raw_delete("default")
    Kept.objects.enqueue_many([{}] * jobs)


def seconds_of_a_turn():
    began, total = time.process_time(), 0
    for number in range(LOOP):
        total += number
    return (time.process_time() - began) / LOOP


def test_a_job_that_does_nothing_costs_little_more_than_nothing():
    turns = []
    for _ in range(8):
        turn = seconds_of_a_turn()
        job = sum(stages(Kept, fill, jobs=2000, rounds=1).values()) / 1e6
        turns.append(job / min(turn, seconds_of_a_turn()))
    assert Kept.objects.done().count() == 2000
    print(f"a job takes as long as {min(turns):.0f} to {max(turns):.0f} turns of a loop")
    assert min(turns) < MOST_TURNS
