"""Workers killed with all that they hold: how soon the last of it has run again, and who pays."""

import os
import random
import signal
import threading
import time
from contextlib import ExitStack

import pytest
from django.db import connection

from django_dbqueue.states import Status
from tests.kit.processes import wait_for_lines, worker
from tests.kit.run_log import runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed, Prompt

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.nightly,
    pytest.mark.proof,
    pytest.mark.process,
]

QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "3"}
SLOW = 8  # seconds
EVERY = 0.2  # seconds between two fresh jobs


class Fresh:
    """Jobs of another table that come all the time, and how long the longest of them waited."""

    def __init__(self, log):
        self.log = f"{log}.fresh"
        self.born = {}
        self.stop = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.produce)
        self.thread.start()
        return self

    def produce(self):
        while not self.stop.wait(EVERY):
            now = time.monotonic()
            self.born[Prompt.objects.create(log=self.log).pk] = now
        connection.close()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def longest_wait(self):
        wait_until(lambda: set(runs(self.log)) == set(self.born))
        return max(runs(self.log)[key][0].start - born for key, born in self.born.items())


def fill(count, log, seconds=0.0, **fields):
    Deed.objects.bulk_create([Deed(seconds=seconds, log=log, **fields) for _ in range(count)])


def handed_over():
    """When the first job of a lost worker came back."""
    wait_until(lambda: Deed.objects.filter(losses__gt=0).exists())
    return time.monotonic()


def wait_without_a_loss(database_url, args, log):
    """How long the fresh jobs wait meanwhile."""
    fill(20, log, SLOW)
    with worker(database_url, *args, **QUICK):
        wait_for_lines(log, 20)
        with Fresh(log) as fresh:
            wait_until(lambda: Deed.objects.done().count() == 20, 120)
        longest = fresh.longest_wait()
    Deed.objects.all()._raw_delete("default")
    return longest


def test_twenty_slow_jobs_of_a_lost_worker_run_again_at_once(database_url, log):
    args = ("queueapp.Deed", "queueapp.Prompt", "--threads", "20")
    before = wait_without_a_loss(database_url, args, f"{log}.before")
    fill(20, log, SLOW)
    with worker(database_url, *args, **QUICK) as host:
        wait_for_lines(log, 20)
        host.send_group(signal.SIGKILL)
    with worker(database_url, *args, **QUICK) as host:
        since = handed_over()
        with Fresh(log) as fresh:
            wait_until(lambda: Deed.objects.done().count() == 20, 120)
            last = time.monotonic() - since
        wait = fresh.longest_wait()
    assert set(Deed.objects.values_list("attempts", "crashes", "losses")) == {(1, 0, 1)}
    print(f"20 jobs of {SLOW} s: all done {last:.1f} s after the hand-over; fresh jobs waited")
    print(f"at most {wait:.2f} s, {before:.2f} s without a loss")
    assert last < SLOW + 2
    assert wait < before + 1


def test_twenty_slow_jobs_of_a_killed_child_run_again_at_once(database_url, log):
    args = ("queueapp.Deed", "queueapp.Prompt", "--threads", "20")
    fill(20, log, SLOW)
    with worker(database_url, *args, **QUICK) as host:
        wait_for_lines(log, 20)
        os.kill(host.children()[0], signal.SIGKILL)
        since = time.monotonic()
        with Fresh(log) as fresh:
            wait_until(lambda: Deed.objects.done().count() == 20, 120)
            last = time.monotonic() - since
        wait = fresh.longest_wait()
    assert set(Deed.objects.values_list("attempts", "crashes")) == {(1, 1)}
    print(f"a killed child: all 20 done {last:.1f} s after; fresh jobs waited {wait:.2f} s at most")
    assert last < SLOW + 2
    assert wait < 1.5


@pytest.mark.parametrize("count", [200, 1500])
def test_what_a_lost_worker_had_fetched_ahead_runs_at_once(database_url, log, count):
    first = Deed.objects.create(seconds=60, log=log)
    fill(count, log)
    args = ("queueapp.Deed", "queueapp.Prompt")
    with worker(database_url, *args, "--batch-size", str(count + 1), **QUICK) as host:
        wait_for_lines(log, 1)
        assert Deed.objects.claimed().count() == count + 1
        host.send_group(signal.SIGKILL)
    Deed.objects.filter(pk=first.pk).update(seconds=0)
    with worker(database_url, *args, **QUICK):
        since = handed_over()
        with Fresh(log) as fresh:
            wait_until(lambda: Deed.objects.done().count() == count + 1, 120, every=0.1)
            last = time.monotonic() - since
        wait = fresh.longest_wait() if fresh.born else 0.0
    assert set(Deed.objects.values_list("attempts", "crashes", "losses")) == {(1, 0, 1)}
    print(f"{count} prefetched no-ops: the last has run {last:.2f} s after the hand-over; fresh")
    print(f"jobs waited {wait:.2f} s at most")
    assert last < 2
    assert wait < 1.5


def test_fifty_kills_of_whole_workers_charge_nobody(database_url, log, full):
    kills = 50 if full else 10
    dice = random.Random(19)
    slow = 40
    Deed.objects.bulk_create(
        [Deed(seconds=dice.choice([0.5, 2.0]), log=log, queue="slow") for _ in range(slow)]
    )
    made = 0
    with ExitStack() as stack:
        args = ("queueapp.Deed", "--threads", "4")
        start = lambda: stack.enter_context(worker(database_url, *args, **QUICK))  # noqa: E731
        hosts = [start(), start()]
        for _ in range(kills):
            Deed.objects.bulk_create([Deed(log=log, queue="fast") for _ in range(100)])
            made += 100
            time.sleep(dice.uniform(0.2, 1.0))
            number = dice.randrange(2)
            hosts[number].send_group(signal.SIGKILL)
            hosts[number] = start()
        wait_until(lambda: Deed.objects.done().count() == made + slow, 300, every=0.2)
    charged = Deed.objects.filter(crashes__gt=0).count()
    lost = {n: Deed.objects.filter(losses=n).count() for n in range(1, 8)}
    again = sum(len(found) > 1 for found in runs(log).values())
    print(f"{kills} kills, {made + slow} jobs: {charged} charged, {again} ran again; lost {lost}")
    assert charged == 0
    assert not Deed.objects.exclude(errors=[]).exists()
    assert Deed.objects.exclude(status=Status.DONE).count() == 0
