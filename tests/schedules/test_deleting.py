"""A schedule that is deleted while one of its ticks comes."""

import time

import pytest
from django.db import connection
from django.db.models import Count
from django.db.utils import OperationalError

from django_dbqueue.schedules import synchronise
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule, Tick
from tests.kit.connections import other_connection
from tests.kit.jobs import in_thread
from tests.kit.schedules import again, scheduled

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]
BRIEFLY = {
    "mysql": "SET SESSION innodb_lock_wait_timeout = 1",
    "postgresql": "SET lock_timeout = '200ms'",
}


def be_brief():
    """Wait for no lock for long."""
    with connection.cursor() as cursor:
        cursor.execute(BRIEFLY[connection.vendor])


def look():
    """By another process."""
    be_brief()
    with pytest.raises(OperationalError):
        run_due()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one transaction after the other")
@pytest.mark.parametrize(
    "delete",
    [
        lambda schedule: schedule.delete(),
        lambda _: Schedule.objects.all().delete(),
        lambda _: synchronise.synchronise("default"),
    ],
    ids=["by itself", "in a list", "declared no more"],
)
def test_no_tick_comes_between_its_ticks_and_itself(delete):
    scheduled(timing="every 1 s", is_declared=True)
    time.sleep(1.1)
    run_due()
    time.sleep(1.1)
    looked = []

    def look_first(execute, sql, *rest):
        if sql.startswith("DELETE") and Schedule._meta.db_table in sql:
            looked.append(in_thread(look))
        return execute(sql, *rest)

    schedule = Schedule.objects.get()
    assert schedule.ticks_so_far.exists()
    with connection.execute_wrapper(look_first):
        delete(again(schedule))
    assert looked
    assert not Schedule.objects.exists()
    assert not Tick.objects.exists()


@pytest.mark.parametrize(
    "rows",
    [
        lambda: Schedule.objects.filter(ticks_so_far=None),
        lambda: Schedule.objects.annotate(number=Count("ticks_so_far")).filter(number=0),
        Schedule.objects.distinct,
    ],
    ids=["joined", "grouped", "distinct"],
)
def test_any_list_is_deleted_that_others_cannot_lock(rows):
    scheduled()
    assert rows().delete()[0] == 1
    assert not Schedule.objects.exists()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="one transaction after the other")
def test_who_deletes_some_waits_for_no_lock_of_another_one():
    held = scheduled("held")
    scheduled("dropped", is_declared=True)
    be_brief()
    other = other_connection()
    try:
        other.set_autocommit(False)
        with other.cursor() as cursor:
            table = Schedule._meta.db_table
            cursor.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR UPDATE", [held.pk])
        synchronise.synchronise("default")
        assert [one.name for one in Schedule.objects.all()] == ["held"]
    finally:
        other.close()
