"""Hosts whose clocks are wrong, beside one whose clock is right, on one queue table: nothing is
early, nothing runs twice, nothing is missed. Only the database's clock counts."""

import os
import random
import time
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from tests.kit.processes import running, worker
from tests.kit.run_log import runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed

pytestmark = pytest.mark.usefixtures("db_rows")

SEED = int(os.environ.get("CLOCKS_SEED", "3"))
FOLDER = str(Path(__file__).resolve().parents[1] / "kit" / "wrong_clock")
# Seconds ahead, and how fast it goes.
HOSTS = [(-600, 1), (600, 1), (0, 10), (0, 0.1), (0, 1)]
ROOM = 0.05  # seconds in which the two clocks of this host are read one after the other


def host(offset, rate):
    """The environment of a process on a host with such a clock."""
    shift = {"CLOCK_OFFSET": str(offset), "CLOCK_RATE": str(rate)}
    return shift | {"PYTHONPATH": f"{FOLDER}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def database_and_monotonic():
    """Both clocks at one moment; the log's times are by the second."""
    while True:
        before = time.monotonic()
        now = Deed.objects.annotate(clock=DbNow()).values_list("clock", flat=True)[0]
        if time.monotonic() - before < ROOM:
            return now, before


PRODUCER = """
from tests.queueapp.models import Deed
from django.utils import timezone
import time, sys
print(timezone.now().timestamp(), time.time())
for number in range({count}):
    delay = {delays}[number % len({delays})]
    Deed.objects.enqueue(delay=delay, text=str(delay), seconds=0.01, log={log!r})
"""


def produce(database_url, log, count, delays, offset, rate):
    """Enqueue from a host with such a clock; what it takes the time to be."""
    code = PRODUCER.format(count=count, delays=delays, log=log)
    with running(database_url, "shell", "--no-imports", "-c", code, **host(offset, rate)) as one:
        assert one.end(60) == 0, one.stderr
        return [float(word) for word in one.stdout.split()]


def enqueue_here(log):
    """What fails twice and then for good, what has expired, and what would have on a fast clock."""
    minute = timedelta(minutes=1)
    for _ in range(10):
        now, _ = database_and_monotonic()
        Deed.objects.create(action="fail", log=log)
        Deed.objects.create(text="expired", expires_at=now - timedelta(seconds=1), log=log)
        Deed.objects.create(text="in time", expires_at=now + 3 * minute, log=log)
        Deed.objects.create(text="1", retry_at=now + timedelta(seconds=2), log=log)


def is_over():
    return not Deed.objects.exclude(status__in=[Status.DONE, Status.BURIED]).exists()


@pytest.mark.proof
def test_clocks_of_hosts_that_are_wrong_make_nothing_early_twice_or_missed(database_url, log, full):
    dice, rounds = random.Random(SEED), 10 if full else 1
    Deed.objects.create(text="expired", expires_at=timezone.now() - timedelta(days=1))
    tally = Counter()
    with ExitStack() as stack:
        served = [
            stack.enter_context(worker(database_url, "queueapp.Deed", **host(*clock)))
            for clock in HOSTS
        ]
        wait_until(lambda: Worker.objects.count() == len(HOSTS))
        for number in range(rounds):
            producer = HOSTS[number % len(HOSTS)]
            tally += play(database_url, f"{log}.{number}", producer, dice)
        wait_until(lambda: not Deed.objects.claimed().exists())
        beats = Worker.objects.filter(stopped_at=None)
        assert beats.count() == len(HOSTS), "somebody was taken for dead"
        assert {one.pid for one in beats} == {one.pid for one in served}
        # Each column is by the database's clock.
        now, _ = database_and_monotonic()
        for row in beats:
            assert abs((now - row.beat_at).total_seconds()) < 60
    print(f"seed {SEED}: {len(HOSTS)} hosts, {rounds} rounds: {dict(tally)}")


def play(database_url, log, producer, dice):
    Deed.objects.exclude(text="expired", log="").all()._raw_delete("default")
    enqueue_here(log)
    delays = [round(dice.uniform(0, 3), 2) for _ in range(10)] + [0] * 5
    thinks, says = produce(database_url, log, 90, delays, *producer)
    offset, rate = producer
    if rate == 1:
        assert thinks - time.time() == pytest.approx(offset, abs=60)
        assert says == pytest.approx(thinks, abs=60)
    wait_until(is_over)
    return judge(log)


def judge(log):
    now, monotonic = database_and_monotonic()
    history, tally = runs(log), Counter()
    for job in Deed.objects.filter(log=log):
        found = history[job.pk]
        job.delay = float(job.text) if job.text[:1].isdigit() else 0
        wanted = {"fail": 3}.get(job.action, 0 if job.text == "expired" else 1)
        assert len(found) == wanted, f"{job.text} ran {len(found)} times"
        assert job.crashes == 0
        tally["runs"] += len(found)
        tally["jobs"] += 1
        assert abs((job.finished_at - now).total_seconds()) < 60
        assert job.created_at <= job.finished_at
        if job.delay:
            started = now + timedelta(seconds=found[0].start - monotonic)
            due = job.created_at + timedelta(seconds=job.delay)
            assert started > due - timedelta(seconds=2 * ROOM), "early"
            tally["delayed"] += 1
        for one, two in pairwise(found):
            assert two.start - one.start > 0.2 - ROOM, "retried early"
    return tally
