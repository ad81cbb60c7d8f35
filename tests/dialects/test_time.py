"""Nothing is early or late, whatever zone the project, the session or the value is in.

The last test runs this file, and that of the fields, once more without USE_TZ.
"""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from datetime import timezone as fixed_zone
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.db import connection, connections
from django.db.backends.signals import connection_created
from django.db.models import F, Max, OuterRef, Subquery
from django.test import override_settings
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import archive, promotion
from django_dbqueue.models import Queue
from django_dbqueue.states import Status
from tests.kit.jobs import (
    claim_one,
    claimed,
    done,
    forget_tables,
    fresh,
    overwrite,
    reap_overdue,
    table,
)
from tests.kit.waiting import wait_until
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows", "odd_zone")

SESSION = {
    "mysql": "SET time_zone = '+08:00'",
    "postgresql": "SET TIME ZONE 'Asia/Shanghai'",  # a name, which the driver knows too
}
ZONES = [("UTC", True), ("Asia/Kathmandu", True), ("Asia/Kathmandu", False), ("UTC", False)]


@pytest.fixture(params=ZONES, ids=lambda zone: f"{zone[0]} {'aware' if zone[1] else 'naive'}")
def odd_zone(request, db_rows):
    """The project in some zone, the database session in another."""

    def set_session(connection, **_):
        if statement := SESSION.get(connection.vendor):
            with connection.cursor() as cursor:
                cursor.execute(statement)

    name, use_tz = request.param
    with override_settings(TIME_ZONE=name, USE_TZ=use_tz):
        connections.close_all()
        forget_tables()  # how values are read was worked out for the zone of before
        connection_created.connect(set_session)
        yield
        connection_created.disconnect(set_session)
        connections.close_all()
    forget_tables()


def next_due():
    """Seconds until the next delayed job is ready."""
    due, _ = promotion.next_moves(table())
    return due


def now(seconds=0.0):
    """Now, and some seconds, as this project's code would say it."""
    return timezone.now() + timedelta(seconds=seconds)


def seconds_between(earlier, later):
    return (later - earlier).total_seconds()


def near(value):
    return pytest.approx(value, abs=8)


def test_the_session_is_in_another_zone():
    with connection.cursor() as cursor:
        cursor.execute(
            {
                "mysql": "SELECT TIMESTAMPDIFF(HOUR, UTC_TIMESTAMP(), NOW())",
                "postgresql": "SELECT EXTRACT(TIMEZONE_HOUR FROM NOW())",
            }.get(connection.vendor, "SELECT 8")
        )
        assert cursor.fetchone()[0] == 8


def test_the_databases_clock_is_this_hosts_clock():
    job = claimed()
    job.complete()
    row = fresh(job)
    for column in ["created_at", "dequeued_time", "finished_at"]:
        assert seconds_between(getattr(row, column), now()) == near(0), column
        assert timezone.is_aware(getattr(row, column)) == settings.USE_TZ


def test_the_column_holds_utc():
    job = Note.objects.create(retry_at=datetime(2024, 7, 1, 12, tzinfo=UTC))
    with connection.cursor() as cursor:
        column = "retry_at AT TIME ZONE 'UTC'" if connection.vendor == "postgresql" else "retry_at"
        cursor.execute(f"SELECT {column} FROM queueapp_note WHERE id = %s", [job.pk])
        assert str(cursor.fetchone()[0]).startswith("2024-07-01 12:00:00")


@pytest.mark.parametrize(
    "zone",
    [
        UTC,
        ZoneInfo("Asia/Kathmandu"),
        ZoneInfo("America/New_York"),
        fixed_zone(timedelta(hours=-9)),
    ],
    ids=str,
)
def test_an_aware_value_is_the_same_instant_when_read(zone):
    instant = datetime(2024, 7, 1, 3, 4, 5, 678901, tzinfo=zone)
    job = Note.objects.create(retry_at=instant, expires_at=instant)
    assert as_instant(fresh(job).retry_at) == as_instant(fresh(job).expires_at) == instant
    assert Note.objects.filter(retry_at=instant).exists()
    for values in [
        Note.objects.values_list("retry_at", flat=True),
        Note.objects.annotate(at=F("retry_at")).values_list("at", flat=True),
        [Note.objects.aggregate(at=Max("retry_at"))["at"]],
    ]:
        assert [as_instant(value) for value in values] == [instant]


def as_instant(value):
    return value if timezone.is_aware(value) else timezone.make_aware(value)


def test_what_a_new_job_says_of_its_time_is_what_is_stored():
    job = Note.objects.create()
    delayed, _ = Note.objects.enqueue(delay=60)
    once, _ = Note.objects.enqueue(delay=60, dedup_key="k")
    [bulk] = Note.objects.bulk_create([Note()])
    for new in [job, delayed, once] + [bulk] * (bulk.pk is not None):
        assert (new.created_at, new.retry_at) == (fresh(new).created_at, fresh(new).retry_at)
        assert seconds_between(new.created_at, now()) == near(0)


def test_an_instant_is_compared_inside_a_subquery():
    job = Note.objects.create(retry_at=now(60))
    twin = Note.objects.filter(pk=OuterRef("pk"))
    assert Note.objects.filter(retry_at=Subquery(twin.values("retry_at")[:1])).get() == job
    assert Note.objects.filter(retry_at__in=Note.objects.values("retry_at")).get() == job
    assert Note.objects.filter(retry_at__gt=DbNow()).exists()
    assert not Note.objects.filter(retry_at__gt=DbNow(plus=120)).exists()


@pytest.mark.parametrize("seconds", [-60, 60])
def test_a_time_given_by_the_caller_is_kept(seconds):
    job = Note.objects.create(retry_at=now(seconds))
    assert next_due() == near(seconds)
    assert promotion.promote(table()) == (seconds < 0)
    assert fresh(job).status == (Status.READY if seconds < 0 else Status.DELAYED)


def test_a_delay_is_neither_early_nor_late():
    Note.objects.enqueue(delay=60)
    assert next_due() == near(60)
    assert promotion.promote(table()) == 0
    Note.objects.enqueue(delay=0.01)
    wait_until(lambda: promotion.promote(table()))
    assert Note.objects.delayed().count() == 1


def test_a_retry_is_neither_early_nor_late():
    claimed().release(delay=60)
    assert next_due() == near(60)
    assert promotion.promote(table()) == 0
    claimed().release(delay=0.01)
    wait_until(lambda: promotion.promote(table()))
    assert Note.objects.delayed().count() == 1


@pytest.mark.parametrize("seconds", [-60, 60])
def test_a_time_to_run_is_over_when_it_is_over(seconds):
    job = claimed()
    overwrite(job, retry_at=now(seconds))
    assert Note.objects.overdue().count() == (seconds < 0)
    assert reap_overdue(table()) == (seconds < 0)


def test_a_claim_and_a_touch_count_from_now():
    job = claimed(time_to_run=1000)
    assert seconds_between(now(), fresh(job).retry_at) == near(1000)
    overwrite(job, retry_at=now(1))
    job.touch()
    assert seconds_between(now(), fresh(job).retry_at) == near(1000)


@pytest.mark.parametrize("seconds", [-60, 60])
def test_a_job_expires_when_it_expires(seconds):
    Note.objects.create(expires_at=now(seconds))
    assert claim_one().has_expired == (seconds < 0)


@pytest.mark.parametrize("seconds", [3600 - 60, 3600 + 60])
def test_a_job_is_archived_when_its_time_has_come(seconds):
    job = done(Kept)
    overwrite(job, retry_at=now(3600 - seconds))
    assert archive.archive(table(Kept)) == (seconds > 3600)


def test_a_pause_ends_when_it_ends():
    Note.objects.create()
    Note.objects.pause(seconds=60)
    assert Note.objects.claim() == []
    Queue.objects.update(paused_until=now(-60))
    assert len(Note.objects.claim()) == 1


def test_a_pause_for_good_can_be_read():
    Note.objects.pause()
    assert Queue.objects.get().paused_until.year >= 9999
    assert Note.objects.paused_queues() == {"default"}


def test_all_this_holds_in_a_project_without_use_tz(database_url, tmp_path):
    if not settings.USE_TZ or settings.TIME_ZONE != "UTC":
        return  # once is enough
    changes = {"TEST_USE_TZ": "0", "TEST_TIME_ZONE": "Asia/Kathmandu", "TMPDIR": str(tmp_path)}
    env = os.environ | {"DATABASE_URL": database_url, "DBQUEUE_TESTS": "1"} | changes
    files = ["tests/dialects/test_time.py", "tests/models/test_fields.py"]
    # In its own zone; other zones within one process are seen here.
    chosen = "((Kathmandu and naive) or test_fields) and not without_use_tz"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", chosen]
    run = subprocess.run(
        [*command, *files], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout[-5000:]
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 40
