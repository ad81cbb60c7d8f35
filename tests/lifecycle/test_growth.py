"""Dead rows that a snapshot keeps: claims begin at a floor, and overlook nothing for ever.

``python -m benchmarks.growth`` measures what they cost. DBQUEUE_TEST_SEED repeats a random test.
"""

import os
import random
import threading
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import InterfaceError

from django_dbqueue.dialects.claim_turns import Met
from django_dbqueue.lifecycle import low_water as low_water_module
from django_dbqueue.lifecycle import ready_queues
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.low_water import (
    MOST_PRIORITIES,
    MOST_QUEUES,
    Head,
    LowWaterMarks,
)
from django_dbqueue.states import Status
from django_dbqueue.worker import queue_poller as worker_lanes
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.connections import other_connection
from tests.kit.jobs import start, start_all, table
from tests.kit.query_plans import captured, read_by
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note
from tests.worker.test_queue_order import options

pytestmark = pytest.mark.usefixtures("db_rows")

SEED = int(os.environ.get("DBQUEUE_TEST_SEED", "1"))
DEAD = 20_000
SLOW, QUICK = 100.0, 0.0001  # seconds


@pytest.fixture
def gains_by_floors(monkeypatch):
    """A database that gains nothing by floors is treated as if it did."""
    monkeypatch.setattr(type(table().dialect), "gains_by_floors", lambda _: True)
    # However slow the machine is, a whole look comes when the test says so.
    monkeypatch.setattr(low_water_module, "LONGEST", 3600.0)
    monkeypatch.setattr(low_water_module, "WHOLE_EVERY", 3600.0)


@pytest.fixture
def always(monkeypatch, gains_by_floors):
    """Every look counts as slow, and whole ones come soon."""
    monkeypatch.setattr(low_water_module, "CHEAP", -1.0)
    monkeypatch.setattr(low_water_module, "TRIPS", 0.0)
    monkeypatch.setattr(low_water_module, "SHARE", 1e9)
    monkeypatch.setattr(low_water_module, "LONGEST", 0.02)
    monkeypatch.setattr(low_water_module, "WHOLE_EVERY", 0.05)
    monkeypatch.setattr(worker_lanes, "NEW_QUEUES_SECONDS", 0.02)


def take(floors, limit=10, queue="default"):
    """A claim as the claimer does it; the jobs, and from which floors."""
    above, dialect = floors.for_claim(queue), table().dialect
    dialect.lost_some = False
    jobs = claim(table(), queue, limit, f"g.{time.monotonic_ns()}", floors=above)
    floors.claimed(queue, jobs, limit, above, dialect.lost_some)
    return jobs, above


def slow(heads=()):
    """Low-water marks after a whole look that was slow."""
    floors = LowWaterMarks()
    floors.looked(table(), list(heads), SLOW)
    return floors


def pks(jobs):
    return [job.pk for job in jobs]


def test_a_claim_begins_where_the_last_one_began(gains_by_floors):
    ready = pks([Note.objects.create() for _ in range(9)])
    floors = slow()
    _, above = take(floors, 3)
    assert above == []
    # The first one was full: what it left could have begun anywhere.
    second, above = take(floors, 3)
    assert above == []
    third, above = take(floors, 3)
    assert above == [(1024, second[0].pk)]
    assert pks([*second, *third]) == sorted(ready)[3:]


def test_there_is_no_floor_while_looks_are_quick(gains_by_floors):
    Note.objects.create()
    floors = slow()
    take(floors)
    assert floors.for_claim("default") != []
    assert not floors.must_look
    floors.looked(table(), [], QUICK)
    assert floors.for_claim("default") is None
    assert floors.must_look


def test_whole_looks_take_at_most_a_tenth_of_the_time(monkeypatch, gains_by_floors):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(low_water_module, "LONGEST", 1.0)
    monkeypatch.setattr(low_water_module, "is_slow", lambda *_, **__: True)
    clock = SimpleNamespace(monotonic=lambda: now.seconds)
    monkeypatch.setattr(low_water_module, "time", clock)
    for took, until in [(0.01, 1.0), (0.3, 3.0), (2.0, 20.0)]:
        floors = LowWaterMarks()
        floors.looked(table(), [], took)
        began = now.seconds
        now.seconds = began + 0.99 * until
        assert not floors.must_look
        now.seconds = began + 1.01 * until
        assert floors.must_look


def test_there_is_no_floor_where_only_the_way_is_long(monkeypatch, gains_by_floors):
    monkeypatch.setattr(low_water_module, "TRIPS", 1e6)  # however slow the machine is

    def delay(execute, *args):
        time.sleep(0.1)
        return execute(*args)

    Note.objects.create()
    # Of one queue: with one statement on every database.
    made = worker_lanes.QueueScheduler(Options(served=parse_served(["queueapp.Note:default"])))
    with connection.execute_wrapper(delay):
        assert made.next() is not None
    assert made.pollers[0].floors.must_look


def test_there_is_no_floor_where_the_order_is_strict(monkeypatch, gains_by_floors):
    strict = replace(table(), policy=replace(table().policy, strict_order=True))
    Note.objects.create()
    floors = LowWaterMarks()
    floors.looked(strict, [], SLOW)
    take(floors)
    assert floors.for_claim("default") is None
    assert floors.must_look


def test_a_look_that_finds_a_job_below_the_floor_lets_all_be_claimed(gains_by_floors):
    urgent = Note.objects.create(priority=7)
    usual = Note.objects.create()
    for head in [(1024, usual.pk - 1), (3, usual.pk + 9), (7, urgent.pk - 1)]:
        Note.objects.create(priority=7)
        floors = slow()
        take(floors)
        assert floors.for_claim("default") != []
        floors.looked(table(), [Head("default", *head)], SLOW)
        assert floors.for_claim("default") == [], head


def test_a_claim_that_may_have_left_something_below_is_followed_by_a_whole_one(gains_by_floors):
    Note.objects.create()
    floors = slow()
    take(floors)
    Note.objects.bulk_create([Note(priority=3) for _ in range(5)])
    floors.looked(table(), ready_queues.heads(table()), SLOW)
    more = [take(floors, 2) for _ in range(3)]
    assert [above for _, above in more] == [[], [], []]
    assert [len(jobs) for jobs, _ in more] == [2, 2, 1]
    assert [priority for priority, _ in floors.for_claim("default")] == [3, 1024]


def test_all_of_a_queue_is_claimed_from_now_and_then(monkeypatch, gains_by_floors):
    Note.objects.create()
    floors = slow()
    take(floors)
    assert floors.for_claim("default") != []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + low_water_module.WHOLE_EVERY)
    assert floors.for_claim("default") == []


def test_few_queues_and_priorities_are_remembered(gains_by_floors):
    floors = slow()
    for number in range(MOST_QUEUES + 5):
        Note.objects.bulk_create([Note(queue=f"q{number}", priority=n) for n in range(5)])
        take(floors, queue=f"q{number}")
    assert len(floors.queues) == MOST_QUEUES
    assert floors.for_claim("q0") == []
    assert len(floors.for_claim(f"q{MOST_QUEUES}")) == MOST_PRIORITIES


def test_jobs_above_the_floors_are_claimed_in_order(gains_by_floors):
    columns = [{"priority": n} for n in (7, 1024, 7, 1024, 1024, 7)]
    Note.objects.bulk_create([Note(**one) for one in columns])
    floors = slow()
    take(floors)
    Note.objects.bulk_create([Note(**one) for one in columns])
    jobs, above = take(floors, 4)
    assert [priority for priority, _ in above] == [7, 1024]
    assert [job.priority for job in jobs] == [7, 7, 7, 1024]
    assert pks(jobs) == sorted(pks(jobs)[:3]) + pks(jobs)[3:]
    left, _ = take(floors, 4)
    assert [job.priority for job in left] == [1024, 1024]


def test_only_what_lies_above_the_floors_is_looked_at(gains_by_floors):
    first, last = (Note.objects.create() for _ in range(2))
    assert ready_queues.has_ready(table(), "default", [(1024, last.pk)])
    assert not ready_queues.has_ready(table(), "default", [(1024, last.pk + 1)])
    assert not ready_queues.has_ready(table(), "default", [(7, first.pk)])
    assert not ready_queues.has_ready(table(), "other", [(1024, first.pk)])
    assert ready_queues.has_ready(table(), "default", [(7, first.pk), (1024, first.pk)])
    if connection.vendor != "sqlite":  # that looks at the whole queue
        assert claim(table(), "default", 9, "g.1", floors=[(7, first.pk)]) == []
        assert claim(table(), "default", 9, "g.2", floors=[(1024, last.pk)]) == [last]


@contextmanager
def snapshot():
    """Somebody reads, and does not come to an end."""
    with closing(other_connection()) as other, other.cursor() as cursor:
        if connection.vendor == "mysql":
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("BEGIN")
        else:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute(f"SELECT COUNT(*) FROM {Note._meta.db_table}")
        yield
        cursor.execute("ROLLBACK")


def bury_in_dead_rows(count):
    """So many jobs have come and gone."""
    Note.objects.enqueue_many({} for _ in range(count))
    while jobs := claim(table(), "default", 500, "dead.1"):
        keys = ", ".join(str(job.pk) for job in jobs)
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {Note._meta.db_table} WHERE id IN ({keys})")


def reads_candidates(statement):
    """What a claim does with the rows that it has found goes by their keys."""
    return connection.vendor == "postgresql" or "LIMIT" in statement.sql


@pytest.mark.skipif(connection.vendor == "sqlite", reason="it keeps no dead rows in its indexes")
def test_a_claim_and_a_look_with_a_floor_pass_over_no_dead_rows():
    if connection.vendor == "mysql" and not getattr(connection, "mysql_is_mariadb", False):
        pytest.skip("MySQL does not say what a statement reads")
    # As a claimer's connection: what the database counted in an earlier test is of no matter.
    table().dialect.keep_to_indexes()
    with snapshot():
        bury_in_dead_rows(DEAD)
        first = Note.objects.bulk_create([Note() for _ in range(50)])[0]
        with captured(Note._meta.db_table) as statements:
            claim(table(), "default", 10, "g.1", floors=[(1024, first.pk)])
            ready_queues.has_ready(table(), "default", [(1024, first.pk)])
            claim(table(), "default", 10, "g.2")
            ready_queues.heads(table(), 1)
        looks = filter(reads_candidates, statements)
        claim_above, look_above, whole_claim, whole_look = map(read_by, looks)
        print(f"\npages: claims {claim_above} and {whole_claim}, looks {look_above}, {whole_look}")
        assert claim_above < whole_claim / 5
        assert look_above < whole_look / 5


def test_claimers_that_meet_leave_nothing_below_their_floors(gains_by_floors):
    Note.objects.enqueue_many({"priority": 7 if n % 2 else 1024} for n in range(900))

    def claim_all():
        floors, taken, empty = slow(), [], 0
        dialect: Any = table().dialect
        if connection.vendor == "mysql":  # on PostgreSQL nobody knows of others
            dialect.turns.contended[table().name, "default"] = Met(calm=10**6, found=5)
        while empty < 3:
            jobs, _ = take(floors, 5)
            taken += pks(jobs)
            empty = 0 if jobs else empty + 1
            if not jobs:  # as a claimer, which looks again then
                floors.looked(table(), ready_queues.heads(table()), SLOW)
        return taken

    taken = [pk for found in start_all(*[claim_all] * 3) for pk in found]
    assert len(taken) == len(set(taken)) == 900


def test_a_claim_that_came_back_short_for_others_sake_is_followed_by_a_whole_one(gains_by_floors):
    for lost_some, above in ((True, []), (False, [(7, 3)])):
        floors = slow()
        job = SimpleNamespace(priority=7, claim_key=3)
        floors.claimed("default", [job], 10, [], lost_some=lost_some)
        assert floors.for_claim("default") == above
    floors = slow()
    floors.claimed("default", [], 10, [], lost_some=True)
    assert floors.for_claim("default") == []


def test_a_key_that_is_no_number_makes_no_floor(gains_by_floors):
    floors = LowWaterMarks()
    floors.looked(table(), [Head("default", 1024, "a-uuid")], SLOW)
    assert floors.for_claim("default") is None


@pytest.mark.parametrize("named", [True, False])
def test_many_queues_far_away_are_no_slow_look(monkeypatch, gains_by_floors, named):
    """Where each takes a statement of its own, as all that are named, the way counts as often."""
    # The machine may be busy; where all are one statement, nothing but its length is seen.
    is_one = not named and table().dialect.seeks_in_recursion
    monkeypatch.setattr(low_water_module, "TRIPS", 1e6 if is_one else 8.0)
    names = [f"q{number}" for number in range(30)]
    Note.objects.enqueue_many({"queue": name} for name in names[: 1 if named else 20])
    scheduler = worker_lanes.QueueScheduler(
        options("queueapp.Note", *([f"--queue={','.join(names)}"] if named else []))
    )

    def delay(execute, *args):
        time.sleep(0.03)
        return execute(*args)

    with connection.execute_wrapper(delay):
        assert scheduler.next() is not None
    assert [poller.floors.in_force for poller in scheduler.pollers] == [False]


def test_what_claims_took_in_no_order_makes_no_floors(gains_by_floors):
    Note.objects.create()
    floors = LowWaterMarks()
    _, above = take(floors)
    assert above is None
    floors.looked(table(), [], SLOW)
    assert floors.for_claim("default") == []


def claimer(batch=3):
    """A claimer whose jobs nobody but the test takes."""
    served = parse_served(["queueapp.Note"])
    return Claimer(
        Options(served=served, batch_size=batch, batch_grows=False),
        "w.1-",
        Buffer(1),
        SharedMemory(1),
        Wakeup(["default"]),
        share=None,
        unwritten=lambda: 0,
    )


def jobs_of(claimer):
    claimer.turn()
    return [job for item in claimer.buffer.withdraw() for job in item.jobs]


class Commotion:
    """What may happen to a queue table meanwhile, at random."""

    def __init__(self, dice):
        self.dice = dice
        self.late = []

    def columns(self):
        return {
            "priority": self.dice.choice([7, 1024, 1024, 1024, 2000, 5000, 6000]),
            "queue": self.dice.choice(["default", "default", "other"]),
        }

    def enqueue(self):
        Note.objects.enqueue_many([self.columns()] * self.dice.randint(1, 4))

    def enqueue_late(self):
        """A job that is older than some that can be seen before it."""
        if not connection.features.has_select_for_update or len(self.late) > 2:
            return
        commit, inserted = threading.Event(), threading.Event()

        def insert():
            with transaction.atomic():
                Note.objects.create(**self.columns())
                inserted.set()
                commit.wait(60)

        thread = start(insert)
        assert inserted.wait(60)
        self.late.append((commit, thread))

    def commit_late(self):
        if self.late:
            commit, thread = self.late.pop(self.dice.randrange(len(self.late)))
            commit.set()
            thread.result()

    def kick(self):
        Note.objects.buried().kick()

    def treat(self, job):
        """End a job, or let it come back below what has been claimed since."""
        self.dice.choice([job.complete, job.complete, job.complete, job.release, job.bury])()

    def something(self):
        happens = [self.enqueue, self.enqueue, self.enqueue_late, self.commit_late, self.kick]
        self.dice.choice(happens)()


@pytest.mark.parametrize("number", range(3))
def test_no_job_is_overlooked_for_ever(always, full, number):
    print(f"\nDBQUEUE_TEST_SEED={SEED}")
    dice, one = random.Random(SEED + number), claimer()
    commotion = Commotion(dice)
    for _ in range(2000 if full else 120):
        commotion.something()
        for job in jobs_of(one):
            commotion.treat(job)
    while commotion.late:
        commotion.commit_late()
    Note.objects.buried().kick()

    def all_done():
        for job in jobs_of(one):
            job.complete()
        return not Note.objects.exclude(status=Status.DONE).exists()

    wait_until(all_done, seconds=20)


def test_an_urgent_job_is_seen_among_others_that_never_end(always):
    one = claimer()
    Note.objects.enqueue_many({} for _ in range(20))
    jobs = [job for _ in range(5) for job in jobs_of(one)]
    assert jobs
    urgent = Note.objects.create(priority=1)

    def is_claimed():
        Note.objects.enqueue_many({} for _ in range(4))
        return urgent.pk in pks(jobs_of(one))

    wait_until(is_claimed, seconds=20)


def lanes_of_one_slow_look(monkeypatch, idle_share):
    """The look was so slow that another whole one is far off."""
    monkeypatch.setattr(low_water_module, "LONGEST", 3600.0)
    monkeypatch.setattr(low_water_module, "IDLE_SHARE", idle_share)
    made = worker_lanes.QueueScheduler(Options(served=parse_served(["queueapp.Note"])))
    assert made.next() is None
    Note.objects.create()
    made.pollers[0].next_look = 0.0
    return made


def test_news_are_looked_for_where_the_floors_have_nothing(monkeypatch, always):
    made = lanes_of_one_slow_look(monkeypatch, idle_share=1e9)
    assert made.next() is None
    made.look_now()
    assert made.next() is not None


def test_news_are_looked_for_beside_a_paused_queue(monkeypatch, always):
    monkeypatch.setattr(low_water_module, "LONGEST", 3600.0)
    monkeypatch.setattr(low_water_module, "IDLE_SHARE", 1e9)
    one = claimer()
    Note.objects.enqueue_many({} for _ in range(9))
    assert jobs_of(one)
    Note.objects.pause("default")
    Note.objects.create(queue="other")
    one.scheduler.look_now()
    assert [job.queue for job in jobs_of(one)] == ["other"]


def test_a_look_that_found_something_proves_no_emptiness():
    made = worker_lanes.QueueScheduler(Options(served=parse_served(["queueapp.Note"])))
    since = time.monotonic()
    Note.objects.create()
    assert made.next() is not None
    # A claim may come back without it: somebody has locked it.
    assert not made.all_looked_at(since)
    Note.objects.pause()
    made.look_now()
    assert made.next() is None
    assert made.all_looked_at(since)


def test_who_has_nothing_else_to_do_looks_sooner(monkeypatch, always):
    assert lanes_of_one_slow_look(monkeypatch, idle_share=0.0).next() is not None


def test_an_error_forgets_the_floors(always):
    one = claimer()
    Note.objects.enqueue_many({} for _ in range(2))
    assert jobs_of(one)
    [watch] = one.scheduler.pollers
    assert watch.floors.queues == ["default"]
    connection.close()
    with connection.execute_wrapper(refuse):
        one.scheduler.look_now()
        one.turn()
    [watch] = one.scheduler.pollers
    assert watch.floors.queues == []


def refuse(execute, sql, params, many, context):
    raise InterfaceError("gone")
