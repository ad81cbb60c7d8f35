"""A worker that looks after many tables asks the database about all of them at once."""

import time
from datetime import timedelta

import pytest
from django.db import connection
from django.db.utils import OperationalError, ProgrammingError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_dbqueue.dialects import ErrorKind
from django_dbqueue.lifecycle import low_water, many_tables
from django_dbqueue.lifecycle.table import table_of
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.queue_poller import QueueScheduler
from django_dbqueue.worker.served import all_served, parse_served
from tests.kit.jobs import claimed, fresh, overwrite, reaper, table
from tests.queueapp.models import Batch, Kept, Note, Pruned, Small, Strict

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

MODELS = [Note, Kept, Strict, Pruned, Small, Batch]


def everything():
    """Of all queue tables that the test project has; more than one statement holds."""
    return [table_of(one.model, one.using) for one in all_served("default")]


def turn(one):
    return one.turn(judge=lambda: True)


def scheduler(*models):
    served = parse_served([f"queueapp.{model.__name__}" for model in models])
    return QueueScheduler(Options(served=served))


def found(one):
    return {poller.served.model: list(poller.queues) for poller in one.pollers}


def look(one):
    one.look_now()
    one.look_where_due()


def test_an_idle_pass_takes_as_many_statements_with_all_tables_as_with_three(
    quick_looks, monkeypatch
):
    now, counts = time.monotonic(), []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for tables in (everything()[:3], everything()):
        one = reaper(Note)
        one.tables = tables
        turn(one)
        with CaptureQueriesContext(connection) as statements:
            turn(one)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 4


def test_an_idle_look_for_ready_jobs_is_one_statement(quick_looks):
    one = QueueScheduler(Options(served=parse_served([])))
    assert len(one.pollers) > many_tables.FEW
    with CaptureQueriesContext(connection) as statements:
        look(one)
    assert len(statements) == 1
    assert one.all_looked_at(since=0.001)


def test_what_is_due_or_over_its_time_in_any_of_them_is_moved():
    past = timezone.now() - timedelta(seconds=60)
    due = [model.objects.create(status=Status.DELAYED, retry_at=past) for model in MODELS]
    overwrite(claimed(Note), retry_at=past)
    done, _ = turn(reaper(*MODELS))
    assert (done.promoted, done.reaped) == (len(MODELS), 1)
    assert {fresh(job).status for job in due} == {Status.READY}


def test_it_comes_back_when_the_next_one_of_any_table_is_due():
    one = reaper(*MODELS)
    with virtual_clock() as clock:
        _, idle = turn(one)
        Small.objects.create(retry_at=clock.now + timedelta(seconds=0.8 * idle))
        _, wait = turn(one)
    assert wait == pytest.approx(0.8 * idle, abs=0.001)


def test_ready_jobs_are_found_next_to_empty_tables():
    one = scheduler(*MODELS)
    look(one)
    assert found(one) == {model: [] for model in MODELS}
    Strict.objects.create(queue="other")
    look(one)
    assert found(one) == {model: [] for model in MODELS} | {Strict: ["other"]}


def test_jobs_that_are_not_for_this_worker_have_no_others_looked_at_again_and_again(
    monkeypatch, quick_looks
):
    """Of other queues, or of paused ones; else a hundred such tables would have each other looked
    at hundreds of times a second."""
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for model in MODELS:
        model.objects.create()
        model.objects.pause()
    one, end = scheduler(*MODELS), now[0] + 8
    with CaptureQueriesContext(connection) as statements:
        while now[0] < end:
            one.look_where_due()
            now[0] += max(0.001, one.wait())
    names = [table(model).name for model in MODELS]
    tables = [sum(name in query["sql"] for name in names) for query in statements]
    assert tables.count(1) > 60
    assert sum(count for count in tables if count > 1) <= 2 * len(MODELS)
    assert found(one) == {model: [] for model in MODELS}
    for model in MODELS:
        model.objects.resume()
    now[0] += 1
    one.look_where_due()
    assert found(one) == {model: ["default"] for model in MODELS}


def test_a_table_that_cannot_be_read_is_no_other_ones_business():
    """As one whose migration was undone, or that somebody has locked."""
    jobs = [Kept.objects.create(retry_at=timezone.now() - timedelta(1)), Note.objects.create()]
    asked = []

    def refuse(execute, sql, params, many, context):
        if table(Strict).name in sql:
            asked.append(sql)
            raise ProgrammingError("Strict is out of order")
        return execute(sql, params, many, context)

    one, reap = scheduler(*MODELS), reaper(*MODELS)
    with connection.execute_wrapper(refuse):
        done, _ = turn(reap)
        look(one)
        together = [sql for sql in asked if table(Note).name in sql]
        turn(reap)
        look(one)
    assert done.promoted == 1
    assert found(one)[Note] == ["default"]
    assert fresh(jobs[0]).status == Status.READY
    # Not tried again for a while.
    assert together == [sql for sql in asked if table(Note).name in sql]


def test_a_table_that_can_be_read_again_is_looked_at_with_the_others(
    monkeypatch, quick_looks, caplog
):
    """As after a lock, or once it was migrated."""

    def refuse(execute, sql, params, many, context):
        if table(Strict).name in sql:
            raise ProgrammingError("Strict is out of order")
        return execute(sql, params, many, context)

    one, reap, real = scheduler(*MODELS), reaper(*MODELS), time.monotonic
    names = table(Note).name, table(Strict).name
    for number in range(2):
        with connection.execute_wrapper(refuse):
            for _ in range(2):
                turn(reap)
                look(one)
        assert caplog.text.count("is left out") == number + 1
        turn(reap)
        look(one)
        monkeypatch.setattr(time, "monotonic", lambda more=number: real() + 60 * (more + 1))
        with CaptureQueriesContext(connection) as statements:
            look(one)
        assert len(statements) == 1
        with CaptureQueriesContext(connection) as statements:
            turn(reap)
        assert sum(all(name in query["sql"] for name in names) for query in statements) == 1


def test_where_looks_are_slow_each_table_gets_its_own_low_water_mark(monkeypatch):
    monkeypatch.setattr(low_water, "CHEAP", -1.0)
    monkeypatch.setattr(low_water, "TRIPS", 0.0)
    one = reaper(*MODELS)
    with CaptureQueriesContext(connection) as statements:
        for _ in range(2):
            turn(one)
    names = table(Note).name, table(Strict).name
    assert sum(all(name in query["sql"] for name in names) for query in statements) == 1
    for _ in range(2):
        turn(one)
    assert all(one.lows[table(model).place].are_in_force for model in MODELS)


def test_a_connection_that_is_lost_is_told_to_who_reconnects(monkeypatch):
    one = reaper(*MODELS)
    monkeypatch.setattr(type(table().dialect), "error_kind", lambda *_: ErrorKind.LOST)

    def lose(execute, sql, params, many, context):
        raise OperationalError("gone")

    with connection.execute_wrapper(lose), pytest.raises(OperationalError):
        turn(one)


def test_idle_tables_are_cleaned_up_less_often_the_more_there_are():
    counts = []
    for tables in (everything()[:3], everything()):
        one = reaper(Note)
        one.tables = tables
        turn(one)
        counts.append(max(one.clean_at.values()))
    assert counts[1] > counts[0] + 5


def test_a_table_that_has_something_to_clean_up_is_looked_at_again_at_once():
    old = timezone.now() - timedelta(days=400)
    one, archived = reaper(*MODELS), []
    for _ in range(3):
        overwrite(Kept.objects.create(), status=Status.DONE, finished_at=old, retry_at=old)
        archived.append(turn(one)[0].archived)
    assert archived == [1, 1, 1]
    assert turn(one)[0].archived == 0
    overwrite(Kept.objects.create(), status=Status.DONE, finished_at=old, retry_at=old)
    assert turn(one)[0].archived == 0, "it was empty a moment ago"
