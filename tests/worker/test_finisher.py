"""When outcomes are written, and what becomes of those that the database does not take."""

import logging
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
from django.db import connection, connections
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.states import Status
from django_dbqueue.worker import finisher as module
from django_dbqueue.worker.buffer import Outcome
from django_dbqueue.worker.finisher import Finisher
from django_dbqueue.worker.session import STATEMENT_WATCHDOG, Session
from tests.kit.jobs import claimed, fresh, row_locked, start, steal, table, waiting_for_locks
from tests.kit.refusals import allow, refused
from tests.kit.waiting import wait_until
from tests.queueapp.models import Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")

locks_rows = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="its locks are the whole database's"
)
BATCH = 3
KEPT_FOR = 5  # refusals at least, before an outcome is given up
GIVEN_UP_BY = 20  # refusals
PATIENCE = {
    "postgresql": "SHOW lock_timeout",
    "mysql": "SELECT @@innodb_lock_wait_timeout, @@lock_wait_timeout",
}


@pytest.fixture
def wakes():
    """One entry for each time that the finisher asked for a turn."""
    return []


@pytest.fixture
def finisher(wakes):
    return Finisher(Session({"default"}), BATCH, lambda: wakes.append(True))


@pytest.fixture
def clock(monkeypatch):
    """The finisher's own monotonic clock: ``now`` is to be set."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def outcome(error=None, model=Note, **columns):
    job = claimed(model, **columns)
    return Outcome(table(model), job.claim_owner, job, error)


def is_done(outcome):
    return fresh(outcome.job).status == Status.DONE


# --- when they are written ------------------------------------------------------------------------


def test_an_outcome_waits_a_tenth_of_a_second_for_others_and_no_longer(finisher, clock):
    first = outcome()
    finisher.put(first)
    assert finisher.turn(idle=False) == pytest.approx(0.1)
    clock.now += 0.09
    assert finisher.turn(idle=False) == pytest.approx(0.01)
    assert not is_done(first)
    clock.now += 0.02
    finisher.turn(idle=False)
    assert is_done(first)


def test_a_later_outcome_does_not_make_the_first_wait_longer(finisher, clock):
    first, second = outcome(), outcome()
    finisher.put(first)
    finisher.turn(idle=False)
    clock.now += 0.06
    finisher.put(second)
    finisher.turn(idle=False)
    clock.now += 0.06
    finisher.turn(idle=False)
    assert is_done(first)
    assert is_done(second)


def test_as_many_as_are_written_together_do_not_wait(finisher, clock):
    outcomes = [outcome() for _ in range(BATCH)]
    for one in outcomes:
        finisher.put(one)
    finisher.turn(idle=False)
    assert all(map(is_done, outcomes))


def test_an_outcome_does_not_wait_where_nothing_else_runs(finisher, clock):
    last = outcome()
    finisher.put(last)
    finisher.turn(idle=True)
    assert is_done(last)


def test_the_first_outcome_and_a_full_batch_ask_for_a_turn(finisher, wakes):
    for count, asked in ((1, 1), (2, 1), (BATCH, 2), (BATCH + 1, 2)):
        finisher.put(outcome())
        assert (finisher.pending, len(wakes)) == (count, asked)


# --- what the database does not take --------------------------------------------------------------


def test_an_error_without_a_known_reason_costs_no_outcome_while_it_may_pass(finisher):
    one = outcome()
    finisher.put(one)
    with refused(Note, "NEW.status = 2"):
        for tries in range(1, KEPT_FOR + 1):
            assert finisher.flush() > 0
            assert (finisher.pending, finisher.stuck) == (1, 1), f"after {tries} refusals"
    finisher.flush()
    assert is_done(one)
    assert (finisher.pending, finisher.stuck) == (0, 0)


def test_an_outcome_that_is_refused_for_ever_holds_up_no_other(finisher, caplog):
    refused_one, other = outcome(text="never"), outcome()
    for one in (refused_one, other):
        finisher.put(one)
    with refused(Note, "NEW.status = 2 AND NEW.text = 'never'"):
        for _ in range(GIVEN_UP_BY):
            finisher.flush()
        assert finisher.pending == 0
    assert is_done(other)
    assert fresh(refused_one.job).status == Status.CLAIMED
    [said] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "its outcome cannot be written, so it runs again" in said.getMessage()


@contextmanager
def shut_out():
    """The database lets nobody in: it is not there, while it is restored."""
    own = connections["default"]
    before = own.settings_dict
    own.close()
    name = "/missing/file" if own.vendor == "sqlite" else "missing"
    own.settings_dict = {**before, "NAME": name}
    try:
        yield
    finally:
        own.settings_dict = before


def test_outcomes_are_kept_for_as_long_as_the_database_lets_nobody_in(finisher):
    one = outcome()
    finisher.put(one)
    with shut_out():
        for _ in range(GIVEN_UP_BY):
            finisher.flush()
        assert finisher.pending == 1
    finisher.flush()
    assert is_done(one)


@locks_rows
def test_a_locked_row_keeps_no_other_outcome_waiting(finisher, clock):
    locked, other = outcome(), outcome()
    for one in (locked, other):
        finisher.put(one)
    with row_locked(locked.job):
        finisher.flush()
        assert is_done(other)
        assert (finisher.pending, finisher.stuck) == (1, 1)
        later = outcome()
        finisher.put(later)
        finisher.flush()
        assert is_done(later)
    assert not is_done(locked)
    clock.now += module.LOCKED_RETRY_SECONDS
    finisher.turn(idle=False)
    assert is_done(locked)
    assert finisher.pending == 0


@locks_rows
def test_of_a_table_with_many_locked_rows_nothing_starts_until_they_are_written(wakes):
    finisher = Finisher(Session({"default"}), BATCH, lambda: wakes.append(True), max_unwritten=4)
    one = outcome()
    finisher.put(one)
    with row_locked(one.job):
        finisher.flush()
        assert finisher.locked_tables == {one.table.place}
    finisher.retry_locked_at = 0.0
    finisher.flush()
    assert is_done(one)
    assert not finisher.locked_tables


@locks_rows
def test_a_runner_that_waited_for_room_goes_on_once_all_that_waits_is_seen_to_be_locked(wakes):
    """A runner has put more while the first was found to be locked."""
    finisher = Finisher(Session({"default"}), BATCH, lambda: wakes.append(True), max_unwritten=8)
    first, *others = (outcome() for _ in range(8))
    with ThreadPoolExecutor(1) as runner, ExitStack() as stack:
        for one in (first, *others):
            stack.enter_context(row_locked(one.job))
        stack.callback(finisher.end_waiting)
        finisher.put(first)
        finisher.flush()
        for one in others:
            finisher.put(one)
        waiting = runner.submit(finisher.wait_for_room)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        finisher.flush()
        assert finisher.locked_tables == {first.table.place}
        waiting.result(10)


class Nap:
    """Instead of sleeping between two tries."""

    def __init__(self, then=lambda pauses: None):
        self.pauses = []
        self.then = then

    def wait(self, seconds):
        assert len(self.pauses) < GIVEN_UP_BY, "it is never given up"
        self.pauses.append(seconds)
        self.then(len(self.pauses))


def test_nor_where_each_outcome_is_written_at_once(finisher):
    one = outcome(model=Mailed)
    finisher._nap = Nap(lambda pauses: allow(Mailed) if pauses == KEPT_FOR else None)
    with refused(Mailed, "NEW.status = 2"):
        finisher.write_now(one)
    assert len(finisher._nap.pauses) == KEPT_FOR
    assert is_done(one)


def test_nor_is_an_outcome_that_is_written_at_once_given_up_while_nobody_is_let_in(finisher):
    one, door = outcome(model=Mailed), ExitStack()
    finisher._nap = Nap(lambda pauses: door.close() if pauses == GIVEN_UP_BY else None)
    with door:
        door.enter_context(shut_out())
        finisher.write_now(one)
    assert len(finisher._nap.pauses) == GIVEN_UP_BY
    assert is_done(one)


@locks_rows
def test_an_outcome_that_is_written_at_once_heaps_up_no_sessions_that_wait_for_its_row(finisher):
    """The server does not see that the first try was given up."""
    one, before = outcome(model=Mailed), patience()
    finisher._nap = Nap()
    with row_locked(one.job):
        writing = start(lambda: [finisher.write_now(one), patience()])
        wait_until(waiting_for_locks, every=0.2)  # asked more often, MariaDB does not look again
        STATEMENT_WATCHDOG.end_waits(0)
        wait_until(lambda: len(finisher._nap.pauses) >= 3, seconds=30)
        assert waiting_for_locks() <= 2
    assert writing.result() == [None, before]
    assert is_done(one)


@locks_rows
def test_an_outcome_that_is_written_at_once_is_one_statement(finisher):
    one = outcome(model=Mailed)
    with CaptureQueriesContext(connections["default"]) as queries:
        finisher.write_now(one)
    assert len(queries) == 1
    assert is_done(one)


def patience():
    """What this thread's connection would wait for a lock."""
    with connections["default"].cursor() as cursor:
        cursor.execute(PATIENCE[connection.vendor])
        return cursor.fetchone()


def test_a_runner_is_not_held_for_ever_by_an_outcome_that_is_refused(finisher):
    one = outcome(model=Mailed)
    finisher._nap = Nap()
    with refused(Mailed, "NEW.status = 2"):
        finisher.write_now(one)
    assert len(finisher._nap.pauses) >= KEPT_FOR
    assert fresh(one.job).status == Status.CLAIMED


def test_an_expired_job_is_not_completed_with_the_others_of_its_claim(finisher, caplog):
    caplog.set_level(logging.INFO, "django_dbqueue")
    done, expired = claim_of(2)
    expired.expired = True
    for one in (done, expired):
        finisher.put(one)
    finisher.flush()
    assert finisher.pending == 0
    [said] = [record for record in caplog.records if "had expired: not run" in record.getMessage()]
    assert said.id == expired.job.pk


# --- what is left of a failure --------------------------------------------------------------------


class Thing:
    """A local variable of a job."""


def failure():
    """What a job raised, and whether its local variable is still there."""
    thing = Thing()
    try:
        raise LookupError(f"{thing} finds nothing")
    except LookupError as error:
        return error, weakref.ref(thing)


@pytest.mark.parametrize("end", ["recorded", "lost", "gone"])
def test_a_failed_job_s_local_variables_do_not_outlive_its_outcome(finisher, end):
    """Even where a receiver of a signal, or a loop of references, keeps its error."""
    error, thing = failure()
    one = outcome(error)
    if end == "lost":
        steal(one.job)
    if end == "gone":
        QuerySet(Note).filter(pk=one.job.pk).delete()
    assert thing() is not None
    finisher.put(one)
    finisher.flush()
    assert finisher.pending == 0
    assert thing() is None


# --- one statement a claim ------------------------------------------------------------------------


def test_of_a_claim_that_goes_on_nothing_is_written_before_its_end_or_its_time(finisher, clock):
    first, *rest = claim_of(BATCH + 1)
    before = outcome()
    for one in (before, first, *rest[:-1]):
        finisher.put(one)
    finisher.turn(idle=False)
    assert [is_done(one) for one in (before, first)] == [True, False]
    finisher.put(rest[-1])
    finisher.turn(idle=False)
    assert all(map(is_done, [first, *rest]))


def test_what_is_left_of_a_claim_waits_no_longer_than_others(finisher, clock):
    first, *_ = claim_of(2)
    for one in (*[outcome() for _ in range(BATCH)], first):
        finisher.put(one)
    finisher.turn(idle=False)
    assert not is_done(first)
    clock.now += 0.11
    finisher.turn(idle=False)
    assert is_done(first)


def claim_of(count):
    """Outcomes of one claim, in order."""
    for _ in range(count):
        Note.objects.create(queue="together")
    jobs = Note.objects.claim(queue="together", limit=count)
    made = [Outcome(table(Note), job.claim_owner, job, ends_claim=False) for job in jobs]
    made[-1].ends_claim = True
    return made
