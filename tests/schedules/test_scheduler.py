"""Who looks: the workers' agents, and the process that each forks for what is due."""

import os
import signal
import socket
import time
from collections import defaultdict
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.utils import InterfaceError, ProgrammingError

from django_dbqueue.dialects.types import RowsLocked
from django_dbqueue.fields import DbNow
from django_dbqueue.models import Worker
from django_dbqueue.schedules import schedule, scheduler
from django_dbqueue.schedules.declared import DECLARED
from django_dbqueue.schedules.models import Schedule, Tick, as_utc
from django_dbqueue.schedules.scheduler import Scheduler
from django_dbqueue.schedules.synchronise import synchronise
from tests.kit.agents import AgentHere
from tests.kit.overview import a_worker
from tests.kit.processes import QUICK, running
from tests.kit.schedules import again, look_until, scheduled
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.process]

SECOND = timedelta(seconds=1)


class Sleepy:
    """A task whose backend never answers."""

    def enqueue(self):
        time.sleep(3600)


sleepy = Sleepy()


class Slow:
    """A task whose backend takes its time."""

    def enqueue(self):
        time.sleep(0.5)


slow = Slow()


def test_what_is_due_is_enqueued_by_a_process_of_its_own(looking):
    scheduled(timing="every 1 s")
    look_until(looking, Note.objects.exists)


def test_where_nothing_is_due_a_look_is_one_statement(looking):
    scheduled(timing="0 3 * * *")
    look_until(looking, lambda: looking._is_planned)
    statements = []

    def note(execute, sql, *rest):
        statements.append(sql)
        return execute(sql, *rest)

    with connection.execute_wrapper(note):
        looking.write()
    assert len(statements) == 1


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (InterfaceError("connection already closed"), scheduler.LOOK_SECONDS),
        (RowsLocked("lock timeout"), scheduler.LOOK_SECONDS),
        (ProgrammingError("there is no such table"), scheduler.UNFIT_SECONDS),
    ],
)
def test_what_passes_keeps_an_agent_from_no_second_look(looking, error, seconds):
    def fail(*_):
        raise error

    with connection.execute_wrapper(fail), pytest.raises(type(error)):
        looking.write()
    assert seconds - 1 < looking.due_in() <= seconds


def test_an_agent_looks_about_once_a_second(monkeypatch):
    monkeypatch.setattr(scheduler, "LIFE_SECONDS_MAX", 0.5)
    scheduled(timing="every 1 s")
    here = AgentHere()
    here.beat()

    def turn():
        here.beat()
        return Note.objects.exists()

    wait_until(turn, every=0.1)
    [looks] = [one for one in here.agent.writers if isinstance(one, Scheduler)]
    assert looks.due_in() <= scheduler.LOOK_SECONDS
    wait_until(lambda: not looks._is_enqueueing())


@pytest.fixture
def declared():
    """A declaration that is to be written."""
    before = DECLARED[:]
    schedule("declared", "0 3 * * *", Note)
    yield Schedule.objects.filter(name="declared")
    DECLARED[:] = before


def test_what_is_declared_is_written_when_a_worker_starts(looking, declared):
    look_until(looking, declared.exists)


@pytest.mark.parametrize("passes", [RowsLocked, InterfaceError])
def test_what_a_lock_kept_from_being_declared_is_written_at_the_next_try(
    looking, declared, monkeypatch, tmp_path, caplog, passes
):
    real, tries = synchronise, tmp_path / "tries"

    def fails_at_first(using):
        if not tries.exists():
            tries.touch()
            raise passes("not now")
        real(using)

    monkeypatch.setattr(scheduler, "synchronise", fails_at_first)
    fine = scheduled("fine", "every 1 s")
    look_until(looking, declared.exists)
    look_until(looking, lambda: again(fine).count > 0)
    assert caplog.text == "", "it is nothing to worry about"


def test_what_is_written_once_is_not_written_again(looking, declared, monkeypatch, tmp_path):
    tries = tmp_path / "tries"

    def note(using):
        with tries.open("a") as log:
            log.write("once ")

    monkeypatch.setattr(scheduler, "synchronise", note)
    fine = scheduled("fine", "every 1 s")
    look_until(looking, lambda: again(fine).count > 1)
    assert tries.read_text() == "once "


def an_older_and_a_newer_worker(seconds=60):
    """The parent of this process, as long ago, and one that started later elsewhere."""
    a_worker(host=socket.gethostname(), pid=os.getppid(), started_at=DbNow(plus=-seconds))
    return a_worker(started_at=DbNow(plus=-seconds / 2))


def test_an_agent_that_is_replaced_leaves_what_a_newer_worker_declares(looking, declared):
    an_older_and_a_newer_worker()
    newer = scheduled("of newer code")
    Schedule.objects.update(is_declared=True)
    look_until(looking, lambda: looking._is_synchronised)
    assert list(Schedule.objects.all()) == [newer]


@pytest.mark.parametrize(
    "change",
    [
        {"stopped_at": DbNow()},
        {"started_at": DbNow(plus=-90)},
        {"started_at": DbNow(plus=3600)},
    ],
    ids=["stopped", "older", "of a clock that was ahead"],
)
def test_a_worker_is_outdated_by_none_but_a_newer_one_that_lives(looking, declared, change):
    newer = an_older_and_a_newer_worker()
    Worker.objects.filter(pk=newer.pk).update(**change)
    look_until(looking, declared.exists)


def test_a_worker_that_has_just_started_writes_what_it_declares(looking, declared):
    an_older_and_a_newer_worker(seconds=2)
    look_until(looking, declared.exists)


def test_what_no_other_try_will_help_is_told_once(looking, declared, monkeypatch, caplog):
    def refuse(_):
        raise ProgrammingError("permission denied")

    monkeypatch.setattr(scheduler, "synchronise", refuse)
    fine = scheduled("fine", "every 1 s")
    look_until(looking, lambda: looking._is_synchronised and again(fine).count > 1)
    assert not declared.exists()


def test_a_declaration_that_hangs_keeps_no_schedule_from_its_ticks(looking, declared, monkeypatch):
    monkeypatch.setattr(scheduler, "ENQUEUE_SECONDS_MAX", 1)
    monkeypatch.setattr(scheduler, "synchronise", lambda _: time.sleep(3600))
    fine = scheduled("fine", "every 1 s")
    look_until(looking, lambda: again(fine).count > 1)
    assert not looking._is_synchronised


def test_a_target_that_hangs_is_ended_and_holds_up_no_other_for_good(looking, monkeypatch):
    monkeypatch.setattr(scheduler, "ENQUEUE_SECONDS_MAX", 1)
    task: dict[str, Any] = {"timing": "every 1 s", "kind": "task", "arguments": {}}
    hangs = scheduled("a", target=f"{__name__}.sleepy", **task)
    fine = [scheduled(name, target="tests.kit.schedules.greeter", **task) for name in "bc"]
    look_until(looking, lambda: all(again(one).count > 1 for one in fine))
    assert again(hangs).count == 0


def test_targets_that_are_slow_together_are_not_ended(looking, monkeypatch, caplog):
    monkeypatch.setattr(scheduler, "ENQUEUE_SECONDS_MAX", 3)
    task: dict[str, Any] = {"kind": "task", "target": f"{__name__}.slow", "arguments": {}}
    rows = [scheduled(f"slow {n}", "every 1 d", **task) for n in range(8)]
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    Schedule.objects.update(next_tick=midnight, next_at=midnight)
    look_until(looking, lambda: all(again(one).count for one in rows))
    wait_until(lambda: not looking._is_enqueueing())
    assert "ended with code" not in caplog.text


def start(stack, database_url):
    return stack.enter_context(running(database_url, "runworker", "queueapp.Note", **QUICK))


@pytest.mark.each_database
def test_workers_that_are_killed_enqueue_each_second_once(database_url):
    names = [f"s{n}" for n in range(5)]
    rows = [scheduled(name, "every 1 s", missed="all") for name in names]

    def have(number):
        return lambda: Tick.objects.filter(schedule=rows[-1]).count() >= number

    with ExitStack() as stack:
        one, other = (start(stack, database_url) for _ in range(2))
        wait_until(have(2))
        one.send_group(signal.SIGKILL)
        wait_until(have(4))
        start(stack, database_url)
        wait_until(have(5))
        other.send_group(signal.SIGKILL)
        wait_until(have(6))
    ticks, jobs = defaultdict(list), set()
    for key, tick, job in Tick.objects.values_list("schedule", "tick", "job"):
        ticks[key].append(as_utc(tick))
        jobs.add(job)
    for row in rows:
        its = sorted(ticks[row.pk])
        assert its == [its[0] + n * SECOND for n in range(len(its))]
        assert again(row).count == len(its)
    assert len(jobs) == sum(map(len, ticks.values()))
    assert jobs == {str(pk) for pk in Note.objects.values_list("pk", flat=True)}
