"""What a dead child had in hand is given back, and charged to what may have killed it alone."""

import os
import time

import pytest
from django.db import connection

from django_dbqueue import events
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.states import Status
from django_dbqueue.worker.agent import Recovery
from django_dbqueue.worker.channel import AbandonedClaims
from django_dbqueue.worker.child import Child, ExitedChild
from django_dbqueue.worker.session import Session
from django_dbqueue.worker.shared_memory import SEPARATOR, SharedMemory
from django_dbqueue.worker.stack_dumps import StackDump
from tests.kit.jobs import claimed, fresh, overwrite, row_locked, table, table_locked
from tests.queueapp.models import Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")

PREFIX = "w.1-"


@pytest.fixture
def child():
    """A child that has three jobs: it runs the first two, in threads of their own."""
    Note.objects.bulk_create([Note() for _ in range(3)])
    jobs = claim(table(), "default", 3, f"{PREFIX}1")
    shared, now = SharedMemory(threads=2), time.monotonic()
    for number, job in enumerate(jobs[:2]):
        label = SEPARATOR.join(["default", table().label, str(job.pk)])
        shared.slot(number).start(label.encode(), now, now + 60)
    ours, theirs = os.pipe()
    child = Child(0, PREFIX, shared, StackDump(), theirs, None)
    yield child
    os.close(ours)
    os.close(theirs)


@pytest.fixture
def recovery():
    return Recovery([table()], Session({"default"}), events.reaped)


def bury(recovery, child):
    recovery.waiting.append(AbandonedClaims.of(ExitedChild(child, -9, child.shared.running())))
    recovery.turn()


def charges():
    """Of each job: its state, its attempts and its crashes."""
    rows = Note.objects.order_by("pk")
    return list(rows.values_list("status", "attempts", "crashes"))


UNHARMED, CRASHED = (Status.READY, 0, 0), (Status.READY, 0, 1)


def test_what_ran_when_a_child_crashed_is_charged_with_it(recovery, child):
    bury(recovery, child)
    assert charges() == [CRASHED, CRASHED, UNHARMED]
    assert recovery.waiting == []


def test_what_ran_when_a_child_was_stopped_by_force_is_charged_nothing(recovery, child):
    child.kill_soon()
    bury(recovery, child)
    assert charges() == [UNHARMED] * 3


def test_what_was_over_its_time_to_run_has_failed_and_nothing_else(recovery, child):
    overdue = child.shared.running()[0]
    child.kill_soon([overdue])
    bury(recovery, child)
    assert charges() == [(Status.DELAYED, 1, 0), UNHARMED, UNHARMED]
    failed = fresh(Note(pk=int(overdue.key)))
    assert failed.errors[-1]["exception"] == "TimeToRunExceeded"


def test_it_is_tried_again_while_the_table_is_locked(recovery, child):
    with table_locked(Note):
        bury(recovery, child)
        assert len(recovery.waiting) == 1
    assert {status for status, _, _ in charges()} == {Status.CLAIMED}
    recovery.turn()
    assert recovery.waiting == []
    assert charges() == [CRASHED, CRASHED, UNHARMED]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_a_locked_row_of_one_child_holds_up_the_recovery_of_no_other(recovery):
    locked, other = claimed(), claimed()
    recovery.waiting += [AbandonedClaims(job.claim_owner) for job in (locked, other)]
    with row_locked(locked):
        recovery.turn()
        assert [exited.owner_prefix for exited in recovery.waiting] == [locked.claim_owner]
        assert fresh(other).status == Status.READY
    recovery.turn()
    assert recovery.waiting == []
    assert fresh(locked).status == Status.READY


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_a_locked_row_of_one_table_holds_up_the_recovery_of_no_other():
    recovery = Recovery([table(), table(Kept)], Session({"default"}), events.reaped)
    locked, other = claimed(), claimed(Kept)
    overwrite(other, owner=locked.claim_owner)
    recovery.waiting.append(AbandonedClaims(locked.claim_owner))
    with row_locked(locked):
        recovery.turn()
        assert fresh(other).status == Status.READY
    assert len(recovery.waiting) == 1
