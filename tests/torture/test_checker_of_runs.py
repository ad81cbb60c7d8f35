"""Histories in which something ran that may not: each is caught by the verdict meant."""

import pytest

from tests.kit.histories import (
    BadHistories,
    claimed_twice,
    finish,
    taken_on_the_brink,
    until_its_end,
)

BAD = BadHistories()
bad = BAD.caught_by


@bad("I3")
def a_double_claim(tale):
    finish(tale, claimed_twice(tale))


@bad("I3")
def a_double_claim_while_another_worker_is_killed(tale):
    second = claimed_twice(tale)
    tale.kill(31, 41)
    finish(tale, second)


@bad("I3")
def a_stop_that_was_too_short_to_lose_the_claim(tale):
    tale.enqueue()
    run = tale.start()
    tale.stop(10, 11)
    tale.wait(0.3)
    tale.cont(10, 11)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@bad("I4")
def a_zombie_completes(tale):
    tale.enqueue()
    run = tale.start()
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.put(run, attempts=0)
    tale.start(pid=21)
    tale.cont(10, 11)
    tale.effect(run)
    tale.end(run)
    tale.completed(run)
    tale.put(run, owner=run["owner"])


@bad("I4")
def a_zombie_fails(tale):
    tale.enqueue()
    run = tale.start()
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.put(run, attempts=0)
    second = tale.start(pid=21)
    tale.cont(10, 11)
    tale.end(run, "fail")
    tale.failed(run)
    tale.put(run, attempts=1)
    finish(tale, second)
    tale.put(second, owner=second["owner"], attempts=2)


@bad("I4")
def a_zombie_completes_what_it_had_ended_in_time(tale):
    run = until_its_end(tale)
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.put(run, attempts=0)
    tale.start(pid=21)
    tale.cont(10, 11)
    tale.completed(run)
    tale.put(run, owner=run["owner"])


@bad("I4")
def a_claim_ends_twice(tale):
    tale.done()
    tale.kill(11)
    end = tale.events[-2]
    tale.note("reaped", key=1, owner=end["owner"], verdict="ready", charged=False)


@bad("I7")
def it_runs_again_without_a_cause(tale):
    run = until_its_end(tale)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@bad("I7")
def it_runs_again_because_somebody_else_was_killed(tale):
    run = until_its_end(tale)
    tale.kill(20, 21, group=True, target="worker-2")
    tale.put(run, attempts=0)
    tale.ran(pid=31)


@bad("I7")
def it_runs_again_after_a_kill_before_its_start(tale):
    tale.kill(10, supervisor=True, target="worker-1")
    tale.wait(1)
    run = until_its_end(tale)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@bad("I7")
def one_claim_starts_a_job_twice(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run)
    again = tale.start(owner=run["owner"], attempt=1)
    finish(tale, again)


@bad("I7")
def an_effect_twice_in_one_run(tale):
    tale.enqueue()
    run = tale.start()
    tale.effect(run)
    finish(tale, run)


@bad("I9")
def it_starts_before_its_delay_is_over(tale):
    tale.enqueue(delay=5)
    tale.wait(4.5)
    tale.ran()


@bad("I9")
def it_is_retried_too_early(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.failed(run, retry_in=2)
    tale.wait(1)
    tale.ran()


@bad("I15")
def it_is_claimed_while_its_queue_is_paused(tale):
    tale.note("pause", queue="default")
    tale.enqueue()
    tale.wait(1.5)
    tale.ran()
    tale.wait(1)
    tale.note("resume", queue="default")


@bad("I16")
def a_dead_process_claims(tale):
    tale.kill(11)
    tale.wait(1)
    tale.done()


@bad("I17")
def a_finished_job_starts_again(tale):
    run = tale.done()
    tale.put(run, status="ready", attempts=0)
    tale.ran(pid=21)
    tale.drop(tale.events[-1])
    tale.drop(tale.events[5])
    tale.events.insert(5, tale.events[4] | {"op": "completed", "t": tale.events[4]["t"] + 1})
    tale.rows[1]["owner"] = run["owner"]


@bad("I17")
def a_buried_job_starts_without_a_kick(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.buried(run, exception="Bury")
    tale.put(run, finished=False)
    tale.wait(0.2)
    tale.ran()


@bad("reaped")
def a_job_is_taken_before_its_start_from_a_worker_that_is_well(tale):
    late = taken_on_the_brink(tale)
    tale.events = [event for event in tale.events if event["op"] != "stop"]
    tale.note("start", "invoke", **late, attempt=1, crashes=0)
    tale.effect(late)


@bad("reaped")
def a_job_is_taken_from_a_worker_that_is_well(tale):
    tale.enqueue()
    run = tale.start()
    tale.reaped(run, charged=False)
    tale.ran(pid=21)


@bad("charged")
def a_crash_is_charged_to_a_job_that_never_started(tale):
    tale.enqueue(1)
    tale.enqueue(2)
    for key in (1, 2):
        run = tale.start(key)
        tale.events.pop()
        if key == 1:
            tale.kill(11)
        tale.reaped(run, pid=10)
    tale.ran(1, pid=12)
    tale.ran(2, pid=12)


@bad("charged")
def a_crash_is_charged_by_a_worker_that_saw_none(tale):
    tale.enqueue()
    run = tale.start()
    tale.kill(10, 11, group=True, target="worker-1")
    tale.reaped(run, charged=True)
    tale.ran(pid=21)


@bad("whole")
def an_effect_without_a_start(tale):
    """As where a line in the middle of a file is missing."""
    tale.done(1)
    tale.done(2)
    [start] = [e for e in tale.events if e["op"] == "start" and e["key"] == 2]
    tale.drop(start)
    tale.rows[2] |= {"owner": None}
    tale.rows.pop(2)
    tale.note("cancel", key=2)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_caught_by_the_verdict_meant(name):
    BAD.check(name)
