"""How jobs end that run together, or as coroutines, or that end themselves."""

import signal
from types import SimpleNamespace

import pytest

from django_dbqueue.states import Status
from django_dbqueue.worker.runner import run_user_code
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, table
from tests.kit.processes import wait_for_lines, worker
from tests.kit.run_log import events, runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Awaited, Deed, Gathered, Marked, Yielding
from tests.worker.test_leaks import open_connections

pytestmark = pytest.mark.usefixtures("db_rows")

DONE = (Status.DONE, 1)
MARKS = {
    "complete": DONE,
    "fail": (Status.DELAYED, 1),
    "release": (Status.DELAYED, 0),
    "bury": (Status.BURIED, 1),
}


def state(job):
    job = fresh(job)
    return job.status, job.attempts


def batch(log, **first):
    """One batch: a job for each mark and one without, behind a first one."""
    jobs = [Marked(log=log, **first)] + [Marked(text=mark, log=log) for mark in ("", *MARKS)]
    Marked.objects.bulk_create(jobs)
    return Marked.objects.order_by("pk")


def test_what_a_batch_left_unmarked_is_complete_and_what_it_marked_is_left_alone(log):
    first, unmarked, *marked = batch(log)
    said = work_off("queueapp.marked")
    assert state(first) == state(unmarked) == DONE
    assert {job.text: state(job) for job in marked} == MARKS
    assert "ClaimLost" not in said
    assert [entry["message"] for entry in fresh(marked[1]).errors] == ["this one does not work"]
    assert fresh(marked[3]).last_error == "not this one"


def test_an_exception_fails_what_a_batch_left_unmarked_and_nothing_else(log):
    first, unmarked, *marked = batch(log, action="raise")
    said = work_off("queueapp.marked")
    for job in (first, unmarked):
        assert state(job) == (Status.DELAYED, 1)
        assert fresh(job).last_error == "RuntimeError: the batch does not work"
    assert {job.text: state(job) for job in marked} == MARKS
    assert "ClaimLost" not in said


def test_a_batch_may_take_its_list_apart(log):
    batch(log, action="pop")
    work_off("queueapp.marked")
    assert [state(job) for job in Marked.objects.filter(text="")] == [DONE, DONE]


def test_a_batch_may_be_a_coroutine(log):
    Gathered.objects.bulk_create([Gathered(log=log) for _ in range(5)])
    work_off("queueapp.gathered")
    assert Gathered.objects.done().count() == len(runs(log)) == 5


def test_a_run_that_yields_has_failed_for_nothing_in_it_was_run(log):
    job = Yielding.objects.create(log=log)
    work_off("queueapp.yielding")
    assert state(job) == (Status.BURIED, 1)
    assert "nothing in it was run" in fresh(job).last_error


def test_a_batch_that_kills_its_worker_is_charged_for_what_it_left_unmarked(database_url, log):
    first, unmarked, *marked = batch(log, action="kill")
    with worker(database_url, "queueapp.Marked"):
        wait_until(lambda: fresh(first).status == Status.BURIED)
        wait_until(lambda: fresh(unmarked).status == Status.DONE)
    assert (fresh(first).crashes, len(fresh(first).errors)) == (3, 3)
    # Nobody can know who of a batch did it; alone, each is judged by its own deed.
    assert (fresh(unmarked).crashes, fresh(unmarked).attempts) == (1, 1)
    assert {job.text: state(job) for job in marked} == MARKS
    assert {job.crashes for job in map(fresh, marked)} == {0}
    history = runs(log)
    assert [len(history[job.pk]) for job in (first, unmarked, *marked)] == [3, 2, 1, 1, 1, 1]


def test_a_job_that_ended_itself_and_then_raises_stays_as_it_ended(log):
    job = Deed.objects.create(action="complete_and_fail", log=log)
    said = work_off("queueapp.deed")
    assert state(job) == DONE
    assert fresh(job).errors == []
    assert "ClaimLost" not in said


def test_coroutines_may_use_the_orm_and_their_errors_are_recorded(log):
    used = Awaited.objects.create(text="made", action="orm", log=log)
    failed = Awaited.objects.create(action="fail", log=log)
    cancelled = Awaited.objects.create(action="cancel", log=log)
    ended = Awaited.objects.create(action="complete", log=log)
    said = work_off("queueapp.awaited")
    assert (state(used), fresh(used).text) == (DONE, "made, seen and saved")
    assert state(failed) == state(cancelled) == (Status.BURIED, 1)
    [entry] = fresh(failed).errors
    assert (entry["exception"], entry["message"]) == ("LookupError", "nothing came of awaiting")
    assert "do_fail" in entry["traceback"]
    assert "CancelledError(given up)" in fresh(cancelled).last_error
    assert state(ended) == DONE
    assert "ClaimLost" not in said


def test_coroutines_run_in_the_runners_threads_side_by_side_and_leak_no_connection(
    database_url, log
):
    before = open_connections()
    with worker(database_url, "queueapp.Awaited", "--threads", "3") as process:
        counts = []
        for _ in range(3):
            Awaited.objects.bulk_create(
                [Awaited(action="together", seconds=0.2, log=log) for _ in range(6)]
            )
            wait_until(lambda: not Awaited.objects.exclude(status=Status.DONE).exists())
            counts.append(open_connections(process))
        process.send(signal.SIGTERM)
        assert process.end() == 0
    # What is synchronous in them, and with it their connection, stays in the runner's thread.
    assert len({thread for _, _, _, _, thread, _ in events(log)}) == 3
    assert len(wait_for_lines(log, 18)) == 18
    assert counts[0] == counts[1] == counts[2]
    wait_until(lambda: open_connections() == before)


class Awaitable:
    def __await__(self):
        ran.append(True)
        yield from ()


ran = []


def test_any_awaitable_is_waited_for_and_an_async_generator_is_refused():
    async def yields():
        yield

    def run(answer):
        job = SimpleNamespace(run=lambda: answer)
        run_user_code(SimpleNamespace(table=table(), jobs=[job]))  # type: ignore[arg-type]

    ran.clear()
    run(Awaitable())
    assert ran == [True]
    with pytest.raises(TypeError, match="nothing in it was run"):
        run(yields())
