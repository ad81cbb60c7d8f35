"""Where a lock, or a database that is away, is in the way of one schedule, the others go on."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from django.db.utils import Error, InterfaceError

from django_dbqueue.dialects import dialect_of
from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.schedules import firing
from django_dbqueue.schedules.firing import run_due
from django_dbqueue.schedules.models import Schedule
from django_dbqueue.schedules.targets import QueueTable
from tests.kit.connections import other_connection
from tests.kit.jobs import table_locked
from tests.kit.lost_connection import lose_connection
from tests.kit.schedules import START, again, scheduled, ticks_of
from tests.queueapp.models import Fleeting, Note

pytestmark = pytest.mark.usefixtures("db_rows")

HOUR = 3600
TICK = START + timedelta(hours=1)


class Away:
    """A task whose backend has a database of its own, to which the connection is lost."""

    def enqueue(self):
        raise InterfaceError("connection already closed")


away = Away()


@pytest.fixture
def asked(monkeypatch):
    """The schedules that were to be enqueued; the tables whose names are put to the others are
    locked."""
    real, asked, locked = QueueTable.enqueue, [], set()

    def enqueue(target, schedule, using):
        asked.append(schedule.name)
        if schedule.target in locked:
            raise RowsLocked("canceling statement due to lock timeout")
        return real(target, schedule, using)

    monkeypatch.setattr(QueueTable, "enqueue", enqueue)
    return asked, locked


def of_fleeting(name, **columns):
    return scheduled(name, "every 1 h", target="queueapp.Fleeting", arguments={}, **columns)


def test_a_locked_table_holds_up_no_schedule_of_another_one(clock, asked, caplog):
    asked[1].add("queueapp.Fleeting")
    held, free = of_fleeting("a"), scheduled("b", "every 1 h")
    clock.move(HOUR)
    run_due()
    assert ticks_of(free) == [TICK]
    assert ticks_of(held) == []
    assert "lock timeout" in again(held).error
    [told] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert "schedule a: nothing enqueued: RowsLocked" in told.getMessage()
    clock.move(firing.SOON_SECONDS)
    run_due()
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1


def test_a_tick_that_met_with_a_lock_is_enqueued_soon_after_it_and_not_missed(clock, asked):
    asked[1].add("queueapp.Fleeting")
    schedule = of_fleeting("a", missed="skip")
    clock.move(HOUR)
    for _ in range(5):
        run_due()
        clock.move(firing.SOON_SECONDS)
    asked[1].clear()
    run_due()
    assert ticks_of(schedule) == [TICK]
    assert Fleeting.objects.count() == 1
    assert again(schedule).error == ""


def test_two_waits_for_a_locked_table_are_enough_for_all_of_its_schedules(clock, asked):
    asked[1].add("queueapp.Fleeting")
    held = [of_fleeting(name) for name in "abcd"]
    clock.move(HOUR)
    run_due()
    assert len(asked[0]) == 3, "once with the others, and twice alone"
    assert all("lock timeout" in again(one).error for one in held)


def test_what_was_broken_spoils_no_transaction_of_others_again(clock, asked):
    asked[1].add("queueapp.Fleeting")
    of_fleeting("a", missed="all")
    clock.move(HOUR)
    run_due()
    asked[0].clear()
    for name in "bc":
        scheduled(name, "every 1 min")
    clock.move(60)
    run_due()
    assert sorted(asked[0][:2]) == ["b", "c"]
    assert asked[0][2:] == ["a"]


def test_a_backend_that_is_away_holds_up_no_other_task(clock):
    task: dict[str, Any] = {"timing": "every 1 h", "kind": "task", "arguments": {}}
    broken = scheduled("a", target=f"{__name__}.away", **task)
    whole = scheduled("b", target="tests.kit.schedules.greeter", **task)
    clock.move(HOUR)
    run_due()
    assert ticks_of(whole) == [TICK]
    assert again(broken).error == "InterfaceError: connection already closed"


def test_where_the_connection_of_the_schedules_is_lost_nothing_is_put_down_to_one_of_them(
    clock, monkeypatch
):
    def lose(*_):
        lose_connection()
        return Schedule.objects.count()

    monkeypatch.setattr(QueueTable, "enqueue", lose)
    schedule = scheduled(timing="every 1 h")
    clock.move(HOUR)
    with pytest.raises(Error):
        run_due()
    connection.close()
    assert again(schedule).error == ""


OF_SERVERS = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="its locks are the whole database's"
)


@pytest.fixture
def impatient():
    """As the connections of workers are."""
    with connection.cursor() as cursor:
        dialect_of(connections["default"]).begin_own_session(cursor)


@OF_SERVERS
def test_a_table_that_somebody_has_locked_for_long_stops_no_schedule_of_another(clock, impatient):
    held, free = scheduled("a", "every 1 h"), of_fleeting("b")
    clock.move(HOUR)
    with table_locked(Note):
        run_due()
        assert ticks_of(free) == [TICK]
    assert again(held).error
    clock.move(firing.SOON_SECONDS)
    run_due()
    assert ticks_of(held) == [TICK]


@OF_SERVERS
def test_a_schedule_whose_own_row_is_locked_stops_no_other(clock, impatient):
    held, free = scheduled("a", "every 1 h"), scheduled("b", "every 1 h")
    clock.move(HOUR)
    other = other_connection()
    table = Schedule._meta.db_table
    with other.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"UPDATE {table} SET error = '' WHERE id = %s", [held.pk])
        with pytest.raises(Error):
            run_due()
        cursor.execute("ROLLBACK")
    other.close()
    assert ticks_of(free) == [TICK]
    assert again(held).error == ""
    run_due()
    assert ticks_of(held) == [TICK]
