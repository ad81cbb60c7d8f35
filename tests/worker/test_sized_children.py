"""Children come and leave: real forks of this process, and figures that the test makes up."""

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from django_dbqueue.worker.agents import AgentHandle, Agents
from django_dbqueue.worker.assignment import QueueName
from django_dbqueue.worker.channel import Backlog, Waiting
from django_dbqueue.worker.children import Children
from django_dbqueue.worker.options import Limits, Options
from django_dbqueue.worker.run_times import RunTimes
from django_dbqueue.worker.scaling import Scaling
from django_dbqueue.worker.scaling_options import ScalingOptions
from django_dbqueue.worker.served import all_served, parse_served
from django_dbqueue.worker.shared_memory import ExitStatus
from tests.kit.forked_children import end, exited_children, fill
from tests.queueapp.models import Note

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.process,
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


def live(stacks, prefix, shared, share, control, role, *assignment):
    """It waits until it is asked to leave; where it may run a single job, it has."""
    if share == 1:
        shared.slot(0).start(b"default\x1fnote", 0.0, 0.0, 1)
        shared.exit_status = ExitStatus.ENOUGH
        return 0
    os.read(control, 1)
    shared.exit_status = ExitStatus.ASKED
    return 0


@pytest.fixture
def start():
    """Children that are gone afterwards."""
    made = []

    def start(processes, most, apart=(), max_jobs=None):
        options = Options(
            served=all_served(),
            processes=processes,
            max_jobs=max_jobs,
            scaling=ScalingOptions(most=most, target_wait=1, balance_cooldown=0.05),
        )
        limits = Limits(options)
        shares = limits.shares() * max(1, len(apart))
        aliases = apart or ("default",)
        reserve = limits.reserve()
        given = 1, "a" * 32, live, aliases, apart, 0, reserve
        children = Children(shares, *given, is_changing=True)
        made.append(children)
        fill(children)
        return children

    yield start
    for children in made:
        end(children)


def jobs_left(children):
    """That somebody may still run, and what was run."""
    living = [child.share for child in children.living.values()]
    return sum(living) + sum(children.shares) + sum(children.reserve)


# --- come and leave -------------------------------------------------------------------------------


def test_one_that_is_not_needed_leaves_and_has_no_successor(start):
    children = start(2, 3)
    children.grow(None)
    fill(children)
    assert len(children.living) == 3
    busy, *idle = children.living.values()
    busy.shared.slot(0).start(b"default\x1fnote\x1f1", 0.0, 9e9)
    children.shrink(None)
    assert not busy.leaving
    [gone] = exited_children(children, 1)
    assert gone.child is idle[-1]
    assert not gone.is_crash
    fill(children)
    assert len(children.living) == children.wanted[None] == 2


def test_one_that_dies_while_it_leaves_is_not_replaced_and_others_are(start):
    children = start(3, 3)
    children.shrink(None)
    for pid in list(children.living):
        os.kill(pid, signal.SIGKILL)
    exited_children(children, 3)
    fill(children)
    assert len(children.living) == 2


def test_each_database_has_its_own_number(start):
    children = start(1, 3, apart=("default", "aside"))
    children.grow("aside")
    children.grow("aside")
    fill(children)
    aliases = [child.shared.aliases for child in children.living.values()]
    assert sorted(aliases) == [("aside",), ("aside",), ("aside",), ("default",)]
    children.shrink("aside")
    [gone] = exited_children(children, 1)
    assert gone.child.shared.aliases == ("aside",)


def test_children_are_replaced_while_one_that_is_not_needed_is_still_there(start):
    children = start(2, 2)
    children.shrink(None)
    [surplus] = [child for child in children.living.values() if child.surplus]
    os.kill(surplus.pid, signal.SIGSTOP)
    children.replace_all()
    children.replace_next()
    children.replace_next()
    fill(children)
    assert sum(child.leaving for child in children.living.values()) == 2
    os.kill(surplus.pid, signal.SIGCONT)
    exited_children(children, 2)
    fill(children)
    assert len(children.living) == 1


# --- where jobs are counted -----------------------------------------------------------------------


def test_jobs_are_counted_however_children_come_and_leave(start):
    children = start(1, 3, max_jobs=10)
    assert (jobs_left(children), len(children.living)) == (10, 1)
    children.grow(None)
    fill(children)
    assert (jobs_left(children), len(children.living)) == (10, 2)
    children.shrink(None)
    exited_children(children, 1)
    fill(children)
    assert (jobs_left(children), len(children.living)) == (10, 1)
    assert children.more_max == 2


def test_one_that_has_run_its_share_is_followed_as_long_as_jobs_are_left(start):
    children = start(1, 3, max_jobs=3)
    for _ in range(3):
        exited_children(children, 1)
        fill(children)
    assert (children.jobs, children.living, children.shares) == (3, {}, [])


def test_with_fewer_jobs_than_processes_no_more_come(start):
    children = start(1, 9, max_jobs=4)
    assert (len(children.living), children.more_max) == (1, 3)


# --- decided --------------------------------------------------------------------------------------


@pytest.fixture
def scaling(start):
    """Of a worker with one process, and up to three."""
    children = start(1, 3)
    served = parse_served(["queueapp.Note"])
    told = ScalingOptions(most=3, target_wait=1, balance_cooldown=0.05)
    handle = AgentHandle("default", 2, 10)
    return Scaling(
        Options(served=served, scaling=told, name="web-1"),
        children,
        Agents([handle], lambda *_: 0),
        "test",
    )


def measured(scaling, seconds_ago=0.0, waited=60.0):
    """A job has waited for long."""
    name = QueueName("default", Note._meta.label_lower, "default")
    [handle] = scaling.agents
    good_until = time.monotonic() + 4.0 - seconds_ago
    handle.backlog = Backlog(good_until, (Waiting(name, 3, waited),), None)


def look(scaling):
    scaling._look_at = 0.0
    scaling.turn()
    return scaling.children.wanted[None]


def test_a_supervisor_decides_by_what_it_was_told(scaling):
    assert look(scaling) == 1
    measured(scaling)
    assert look(scaling) == 2
    shown = scaling.columns("default")
    assert shown["slots"] == scaling.options.threads
    assert (shown["processes"], shown["least"], shown["most"]) == (1, 1, 3)
    [decision] = shown["decisions"]
    text = "1 -> 2 processes: the oldest job of queueapp.note:default has waited 1 min"
    assert decision["text"] == text
    fill(scaling.children)
    assert scaling.columns("default")["processes"] == 2
    assert scaling.columns("default")["slots"] == 2 * scaling.options.threads


def test_a_decision_is_logged_with_the_name_of_the_worker(scaling, caplog):
    caplog.set_level("INFO", "django_dbqueue")
    measured(scaling)
    look(scaling)
    [line] = [one for one in caplog.records if vars(one).get("event") == "worker.scaled"]
    assert line.getMessage().startswith("worker web-1 (test): 1 -> 2 processes: ")
    assert (vars(line)["worker"], vars(line)["worker_name"]) == ("test", "web-1")


def test_while_a_database_is_silent_nothing_is_decided(scaling):
    measured(scaling, seconds_ago=5)
    assert look(scaling) == 1
    measured(scaling)
    assert look(scaling) == 2


@pytest.mark.parametrize("what", ["paused", "missing", "over"])
def test_it_does_not_grow_while_that_would_be_in_vain(scaling, what):
    measured(scaling)
    if what == "paused":
        scaling.children.pause(True)
    elif what == "missing":
        [pid] = scaling.children.living
        os.kill(pid, signal.SIGKILL)
        exited_children(scaling.children, 1)
    else:
        scaling.is_over = True
    assert look(scaling) == 1


def test_what_runs_for_long_is_told_though_no_job_has_ended(scaling):
    [child] = scaling.children.living.values()
    child.shared.slot(0).start(b"default\x1fnote\x1f1", time.monotonic() - 90, 9e9)
    measured(scaling, waited=0.5)
    assert look(scaling) == 2
    assert (
        "3 jobs are ready, for which 1 process needs"
        in scaling.columns("default")["decisions"][0]["text"]
    )


def test_jobs_that_end_together_are_added_to_the_run_times_of_their_queues():
    times, alias = RunTimes(), SimpleNamespace(alias="default")
    done = [(Note(queue=name), seconds) for name, seconds in [("a", 0.5), ("b", 2.0), ("a", 1.0)]]
    table: Any = SimpleNamespace(connection=alias, label="note", takes_batches=False)
    times._completed(table, done)
    assert [found[1:] for found in times.all()] == [(2, 1.5), (1, 2.0)]
    table.takes_batches = True
    times._completed(table, done[::2])
    assert [found[1:] for found in times.all()] == [(4, 2.25), (1, 2.0)]


def test_run_times_are_added_up_over_children_and_by_queue(scaling):
    quick, slow = (Note._meta.label_lower, "quick"), (Note._meta.label_lower, "slow")
    [child] = scaling.children.living.values()
    for _ in range(10):
        child.assignment.times.add("default", *quick, 0.02)
        child.assignment.times.add("default", *slow, 2.0)
    look(scaling)
    assert scaling.means.mean("default", *quick) == pytest.approx(0.02)
    assert scaling.means.mean("default", *slow) == pytest.approx(2.0)
    assert scaling.means.mean("default", "other", "unknown") == pytest.approx(1.01)
    for _ in range(10):
        child.assignment.times.add("default", *quick, 0.2)
    look(scaling)
    assert scaling.means.mean("default", *quick) == pytest.approx(0.11, abs=0.005)


def test_queues_beyond_those_that_are_told_apart_count_together(scaling):
    [child] = scaling.children.living.values()
    for number in range(100):
        child.assignment.times.add("default", "queueapp.note", f"q{number}", 1.0)
    found = list(child.assignment.times.all())
    assert sum(count for _, count, _ in found) == 100
    assert len(found) == 65
