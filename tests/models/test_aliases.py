"""Two databases at once, with a queue table on each."""

import json
import os
import re
import signal

import django
import pytest

from tests.kit.two_databases import Two
from tests.kit.user_project import own_database
from tests.kit.waiting import wait_until

ALIASES = ("default", "aside")


@pytest.fixture
def two(tmp_path, db_rows, database_url):
    with own_database(database_url, tmp_path) as url:
        project = Two(tmp_path, url)
        yield project
        project.end()
        project.default.close()


def fill(two, count=3, **columns):
    made = ", ".join(f"{name}={value!r}" for name, value in columns.items())
    two.shell(f"for m in (Near, Far):\n for _ in range({count}): m.objects.enqueue({made})")


def test_one_worker_serves_both(two):
    fill(two, 20)
    fill(two, 1, fails=True)
    fill(two, 1, delay=0.5)
    process = two.worker()
    wait_until(lambda: two.living() == ["default", "aside"])
    sql = "SELECT serves FROM dbqueue_worker"
    serves = {alias: json.loads(two.ask(alias, sql)[0][0]) for alias in two.living()}
    assert serves == {"default": ["near.near"], "aside": ["far.far"]}
    wait_until(lambda: two.all_done(22))
    assert two.states()["far"].count((2, 2)) == 1
    process.terminate()
    assert process.wait(60) == 0
    assert two.living() == []
    for alias in ("default", "aside"):
        assert two.ask(alias, "SELECT stop_reason FROM dbqueue_worker") == [("SIGTERM",)]
    assert "Traceback" not in process.log.read_text()


def test_one_worker_serves_one_queue_table_on_both(two):
    two.shell("for a in ('default', 'aside'):\n for _ in range(20): Near.objects.using(a).create()")
    process = two.worker("near.Near@default", "near.Near@aside:default", "--stop-when-empty")
    assert process.wait(60) == 0
    rows = [two.ask(alias, "SELECT status, attempts FROM near_near") for alias in ALIASES]
    assert rows == [[(2, 1)] * 20] * 2


def test_a_queue_is_left_to_others_on_one_database_or_on_both(two):
    two.shell("for a in ('default', 'aside'): Near.objects.using(a).create()")
    served = ["near.Near@default", "near.Near@aside", "--stop-when-empty"]
    assert two.worker(*served, "--except", "near.Near:default").wait(60) == 0
    assert two.worker(*served, "--except", "near.Near@aside:default").wait(60) == 0
    rows = [two.ask(alias, "SELECT status FROM near_near") for alias in ALIASES]
    assert rows == [[(2,)], [(0,)]]


def test_a_database_that_is_not_there_is_named(two):
    process = two.worker("near.Near@nowhere")
    assert process.wait(60) == 1
    assert "'nowhere' is no database alias; known: default, aside" in process.log.read_text()


def test_status_tells_of_both(two):
    fill(two, 3)
    report = json.loads(two.manage("dbqueue", "status", "--json", code=1))
    assert [(q["table"], q["counts"]["ready"]) for q in report["queues"]] == [
        ("near.near", 3),
        ("far.far", 3),
    ]
    only = json.loads(two.manage("dbqueue", "status", "--json", "--database", "aside", code=1))
    assert [q["table"] for q in only["queues"]] == ["far.far"]
    assert "far.far" in two.manage("dbqueue", "status", code=1)


def test_a_worker_of_one_database_leaves_the_other_alone(two):
    fill(two, 3)
    process = two.worker("--database", "aside", "--stop-when-empty")
    assert process.wait(60) == 0
    assert two.states() == {"near": [(0, 0)] * 3, "far": [(2, 1)] * 3}
    assert two.ask("default", "SELECT COUNT(*) FROM dbqueue_worker") == [(0,)]


def test_a_pause_holds_on_its_own_database(two):
    fill(two, 2)
    two.shell("Far.objects.pause(reason='tea')")
    process = two.worker("--stop-when-empty")
    assert process.wait(60) == 0
    assert two.states() == {"near": [(2, 1)] * 2, "far": [(0, 0)] * 2}
    report = json.loads(two.manage("dbqueue", "status", "--json"))
    assert report["paused"] == [["far.far", "default"]]
    two.shell("Far.objects.resume()")
    assert two.worker("--stop-when-empty").wait(60) == 0
    assert two.all_done(2)


def test_a_killed_workers_jobs_are_reaped_on_both(two):
    fill(two, 3, seconds=60)
    victim = two.worker("--threads", "2")
    wait_until(lambda: all((1, 1) in rows for rows in two.states().values()))
    os.killpg(victim.pid, signal.SIGKILL)
    two.shell("for m in (Near, Far):\n m.objects.update(seconds=0)")
    two.worker()
    wait_until(lambda: two.all_done(3))
    for alias in ("default", "aside"):
        sql = "SELECT stop_reason FROM dbqueue_worker WHERE stopped_at IS NOT NULL"
        assert [re.sub(r"\d.*s:", "..", r) for (r,) in two.ask(alias, sql)] == [
            "no beat for .. taken for dead"
        ]


def test_once_and_a_reaper_of_its_own_know_both(two):
    fill(two, 1, delay=0.01)
    assert "2 promoted" in two.manage("runreaper", "--once")
    for _ in range(2):
        two.manage("runworker", "--once")
    assert two.all_done(1)


VERBS = """
far = Far.objects.using("aside")
job, created = far.enqueue(dedup_key="x")
assert created and job._state.db == "aside"
assert far.enqueue(dedup_key="x") == (job, False)
far.create()
far.bulk_create([Far()])
far.pause()
assert far.paused_queues() == {"default"} and far.claim(9) == []
far.resume()
a, b, c = far.claim(limit=9)
a.complete(); b.fail("no"); c.bury("no")
assert str(far.filter(status=4).kick()) == "1 changed"
[c] = Far.objects.using("aside").all().claim()
c.release()
assert str(Far.objects.using("aside").ready().bury()) == "1 changed"
for wrong in (far.filter(status=0), far.all()[:3], far.exclude(pk=1)):
    for verb in ("claim", "enqueue", "pause", "resume", "paused_queues"):
        try:
            getattr(wrong, verb)()
        except TypeError as error:
            assert "whole table" in str(error)
        else:
            raise AssertionError(verb)
assert Far.objects.db_manager("aside").claim() == []
near = Near.objects.using("default")
assert near.enqueue()[1] and len(near.claim()) == 1
print("fine")
"""


def test_every_verb_works_on_a_queryset_of_a_database(two):
    assert two.shell(VERBS).strip() == "fine"


def test_a_locked_database_holds_up_its_own_jobs_for_a_while_and_costs_nothing(two):
    """Its beats are missing, and its agent is taken for stuck; the other database goes on."""
    process = two.worker()
    two.shell("Near.objects.create(), Far.objects.create()")
    wait_until(lambda: two.all_done(1))  # else it may not have begun on one of them
    with two.aside_locked():
        two.shell("for _ in range(5): Near.objects.create()")
        wait_until(lambda: two.states()["near"] == [(2, 1)] * 6)
        wait_until(lambda: "database aside does not answer" in process.log.read_text())
    two.shell("for _ in range(5): Far.objects.create()")
    wait_until(lambda: two.all_done(6))
    assert process.poll() is None
    assert [row for rows in two.states().values() for row in rows] == [(2, 1)] * 12


def test_a_worker_begins_on_one_database_while_the_other_is_locked(two):
    with two.aside_locked():
        process = two.worker("--processes", "2")
        two.shell("for _ in range(5): Near.objects.create()")
        wait_until(lambda: two.states()["near"] == [(2, 1)] * 5)
        assert two.ask("aside", "SELECT COUNT(*) FROM dbqueue_worker") == [(0,)]
        assert "database aside is away, its jobs wait until it answers" in process.log.read_text()
    two.shell("for _ in range(5): Far.objects.create()")
    wait_until(lambda: two.all_done(5))
    process.terminate()
    assert process.wait(60) == 0
    assert [row for rows in two.states().values() for row in rows] == [(2, 1)] * 10


def test_a_worker_that_stops_when_empty_waits_for_both(two):
    fill(two, 2)
    with two.aside_locked():
        process = two.worker("--stop-when-empty", waits=False)
        wait_until(lambda: "connecting: " in process.log.read_text())
        assert two.states()["near"] == [(0, 0)] * 2
    assert process.wait(60) == 0
    assert two.all_done(2)


def test_a_worker_grows_on_one_database_while_the_other_is_locked(two):
    with two.aside_locked():
        two.shell("Near.objects.bulk_create([Near(seconds=0.5) for _ in range(20)])")
        process = two.worker("--processes", "1-2", "--target-wait", "0.1")
        wait_until(lambda: "on default: 1 -> 2" in process.log.read_text())


def test_a_database_that_is_away_costs_no_claim_on_the_other(two):
    """The beats on the one that is there go on: nobody takes the worker for dead."""
    patient = {"DBQUEUE_WORKER_TIMEOUT": "6"}
    two.shell("Near.objects.create(seconds=12)")
    holder = two.worker(**patient)
    wait_until(lambda: two.states()["near"] == [(1, 1)])
    with two.aside_locked():
        other = two.worker("--database", "default", **patient)
        wait_until(lambda: two.states()["near"] == [(2, 1)])
        assert "beating: " in holder.log.read_text()
        assert "is gone" not in other.log.read_text()
    assert "taken for dead" not in holder.log.read_text()
    assert holder.poll() is None


ELSEWHERE = """
DATABASES["elsewhere"] = {"ENGINE": "elsewhere.database", "NAME": "no driver for it is here"}
"""


def test_a_database_without_a_driver_and_without_jobs_is_in_nobodys_way(two):
    fill(two, 1)
    with (two.folder / "two_settings.py").open("a") as settings:
        settings.write(ELSEWHERE)
    assert "far.far" in two.manage("dbqueue", "status", code=1)
    two.manage("dbqueue", "workers")
    # From 6.1 on, Django's own checks ask the driver of every database.
    unchecked = ["--skip-checks"] if django.VERSION >= (6, 1) else []
    two.manage("runreaper", "--once", *unchecked)
    process = two.worker("--stop-when-empty", *unchecked, DBQUEUE_NOTIFY="1")
    assert process.wait(60) == 0
    assert two.all_done(1)
    assert "Traceback" not in process.log.read_text()
