"""One worker, two databases: one of them is lost, and the other one's jobs go on at their rate."""

import time

import pytest
from django.db import connection

from django_dbqueue.torture.proxy import Way
from tests.kit.silent_server import proxied
from tests.kit.two_databases import Two
from tests.kit.user_project import own_database
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file")
TIMING = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "4"}
JOBS = 300
FAULT = 7.0  # seconds; after 3 a statement is given up
RESUMES_WITHIN = 10.0  # seconds; 3 are promised, and a busy machine is slow


@pytest.fixture
def silent():
    with proxied() as found:
        yield found


@pytest.fixture
def two(tmp_path, db_rows, database_url, silent):
    """Near's database is behind the proxy, Far's is a file."""
    with own_database(database_url, tmp_path) as url:
        name = url.partition("?")[0].rpartition("/")[2]
        project = Two(tmp_path, f"{silent.url.rpartition('/')[0]}/{name}")
        yield project
        project.end()
        project.default.close()


def done(two, alias, name):
    [(count,)] = two.ask(alias, f"SELECT COUNT(*) FROM {name}_{name} WHERE status = 2")
    return count


def test_a_suspect_of_one_database_waits_for_no_other_that_is_away(two, silent):
    two.shell(
        "from django.db.models import QuerySet\n"
        "Near.objects.create()\n"
        "Far.objects.enqueue(delay=3600)\n"
        "QuerySet(Far).update(losses=2)"
    )
    two.worker(**TIMING)
    wait_until(lambda: done(two, "default", "near") == 1)
    silent.proxy.be(Way.REFUSE)
    two.shell(
        "from django.db.models import QuerySet\n"
        "from django_dbqueue.fields import DbNow\n"
        "QuerySet(Far).update(retry_at=DbNow())"
    )
    wait_until(lambda: done(two, "aside", "far") == 1, seconds=20)


@pytest.mark.parametrize("way", [Way.REFUSE, Way.SWALLOW])
def test_a_lost_database_holds_up_nothing_of_the_other(two, silent, way):
    two.shell(f"for m in (Near, Far):\n for _ in range({JOBS}): m.objects.create(seconds=0.02)")
    process = two.worker("--threads", "2", **TIMING)
    wait_until(lambda: done(two, "aside", "far") > 20 and done(two, "default", "near") > 20)
    silent.proxy.be(way)
    end = time.monotonic() + FAULT
    wait_until(lambda: done(two, "aside", "far") == JOBS, seconds=30)
    wait_until(lambda: time.monotonic() > end)
    before = done(two, "default", "near")
    assert before < JOBS
    silent.proxy.be(Way.PASS)
    healed = time.monotonic()
    wait_until(lambda: done(two, "default", "near") > before, seconds=30)
    resumed = time.monotonic() - healed
    wait_until(lambda: two.all_done(JOBS), seconds=180)
    print(f"resumed {resumed:.1f} s after {way.name}")
    assert resumed < RESUMES_WITHIN
    assert {attempts for rows in two.states().values() for _, attempts in rows} == {1}
    assert process.poll() is None
