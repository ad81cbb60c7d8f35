"""Concurrency keys among many processes that are killed: never too many, and no slot is lost."""

import os
import random
import signal
import threading
import time
from contextlib import ExitStack, closing, suppress

import pytest

from tests.kit.connections import other_connection
from tests.kit.processes import lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Ordered, Shared

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.process,
    pytest.mark.each_database,
]

QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "2"}
TENANTS = ("a", "b", "c", "d")
LIMIT = 2


class Watch:
    """Counts the claims of each key all the time."""

    def __init__(self):
        self.most, self.looks = 0, 0
        self.stop = threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(30)

    def look(self):
        sql = (
            "SELECT COUNT(*) FROM queueapp_shared WHERE status = 1 AND concurrency_key IS NOT NULL "
            "GROUP BY concurrency_key"
        )
        with closing(other_connection()) as other, other.cursor() as cursor:
            while not self.stop.wait(0.002):
                cursor.execute(sql)
                self.most = max([self.most, *(count for (count,) in cursor.fetchall())])
                self.looks += 1


def start(stack, url, name, processes):
    return stack.enter_context(worker(url, f"queueapp.{name}", "--processes", processes, **QUICK))


def kill_some(stack, url, workers, kills):
    """Mostly a process that runs jobs; now and then a whole worker, which another one follows."""
    chosen, done = random.Random(7), 0
    while done < kills:
        number = chosen.randrange(len(workers))
        if done % 5 == 4:
            workers[number].send_group(signal.SIGKILL)
            workers[number] = start(stack, url, "Shared", "4")
        else:
            children = wait_until(workers[number].children)
            with suppress(ProcessLookupError):
                os.kill(chosen.choice(children), signal.SIGKILL)
        done += 1
        time.sleep(chosen.uniform(0.05, 0.3))
    return done


def all_ended(model=Shared):
    return not model.objects.exclude(status__in=(2, 4)).exists()


def make(count, **columns):
    rows = [Shared(tenant=TENANTS[n % 4], **columns) for n in range(count)]
    Shared.objects.bulk_create(rows)


@pytest.mark.proof
def test_no_more_than_two_of_a_key_are_claimed_and_no_slot_is_lost_by_kills(database_url, full):
    kills = 50 if full else 5
    make(24 * kills if full else 60, seconds=0.05)
    with ExitStack() as stack, Watch() as watch:
        workers = [start(stack, database_url, "Shared", "4") for _ in range(2)]
        wait_until(lambda: Shared.objects.done().exists())
        kill_some(stack, database_url, workers, kills)
        began = time.monotonic()
        wait_until(all_ended, 120)
        took = time.monotonic() - began
        # Every slot is there: each key has two claims at once.
        make(16, seconds=3)
        wait_until(lambda: Shared.objects.claimed().count() == LIMIT * len(TENANTS), 30)
        wait_until(all_ended, 60)
    print(
        f"{kills} kills, {watch.looks} looks: at most {watch.most} of a key; rest in {took:.1f} s"
    )
    assert watch.looks > 50
    assert watch.most == LIMIT


def test_a_key_whose_worker_is_lost_goes_on_within_seconds(database_url):
    """Whatever the kill has cut off: the claim, its end, or the wake-up after it."""
    Shared.objects.bulk_create([Shared(tenant="a", seconds=30) for _ in range(3)])
    with ExitStack() as stack:
        lost = start(stack, database_url, "Shared", "2")
        wait_until(lambda: Shared.objects.claimed().count() == LIMIT)
        lost.send_group(signal.SIGKILL)
        # As if the others' wake-up had been lost with it.
        Shared.objects.claimed().delete()
        start(stack, database_url, "Shared", "1")
        wait_until(lambda: Shared.objects.claimed().count() == 1, 20)


def begun(log):
    """tenant -> the keys of its runs, in the order in which they began."""
    found = {}
    for line in lines(log):
        event, tenant, key, _ = line.split()
        if event == "begin":
            found.setdefault(tenant, []).append(int(key))
    return found


def test_four_workers_keep_the_order_of_each_key_though_jobs_fail(database_url, log):
    for n in range(40):
        failures = 1 if n % 8 == 3 else 0
        Ordered.objects.create(tenant=f"t{n % 4}", failures=failures, seconds=0.005, log=log)
    with ExitStack() as stack:
        for _ in range(2):
            start(stack, database_url, "Ordered", "2")
        wait_until(lambda: all_ended(Ordered), 60)
    found = begun(log)
    assert sum(map(len, found.values())) == 45
    # A failing head comes twice in a row, before all of its followers.
    assert all(keys == sorted(keys) for keys in found.values())
