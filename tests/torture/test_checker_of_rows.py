"""Histories whose rows are not what they should be: each is caught by the verdict meant."""

import pytest

from tests.kit.histories import BadHistories, crashed

BAD = BadHistories()
bad = BAD.caught_by


@bad("I1")
def a_job_is_lost(tale):
    tale.rows.pop(tale.enqueue())


@bad("I1")
def a_job_is_lost_after_it_was_done(tale):
    tale.done()
    tale.rows.clear()


@bad("I2")
def a_row_that_nobody_enqueued(tale):
    tale.done()
    tale.drop(tale.events[0])
    tale.drop(tale.events[0])


@bad("I2")
def a_rolled_back_job_runs(tale):
    tale.done()
    tale.events[1]["type"] = "fail"


@bad("I2")
def one_enqueue_makes_two_jobs(tale):
    tale.done(1)
    tale.done(2)
    del tale.events[6:8]
    for event in tale.events[6:]:
        if "mark" in event:
            event["mark"] = "mark-1"
    tale.rows[2]["mark"] = "mark-1"


@bad("I6")
def an_effect_of_a_job_that_nobody_enqueued(tale):
    tale.done()
    tale.effects.append({"mark": "mark-9"})


@bad("I5")
def an_attempt_is_counted_twice(tale):
    tale.done()
    tale.rows[1]["attempts"] = 2


@bad("I5")
def a_release_costs_an_attempt(tale):
    tale.enqueue()
    tale.rows[1]["attempts"] = 1
    tale.ran()


@bad("I5")
def a_failure_costs_no_attempt(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.failed(run)
    tale.put(run, attempts=0)
    tale.wait(0.2)
    tale.ran()


@bad("I5")
def more_attempts_than_allowed(tale):
    tale.enqueue()
    for _ in range(4):
        run = tale.start()
        tale.end(run, "fail")
        tale.failed(run)
        tale.wait(0.2)
    tale.put(run, status="buried", finished=True)


@bad("I6")
def done_without_effect(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run)
    tale.completed(run)


@bad("I6")
def done_with_the_effect_of_another_claim(tale):
    tale.enqueue()
    run = tale.start()
    tale.effect(run)
    tale.kill(11)
    tale.reaped(run, pid=10)
    second = tale.start(pid=12)
    tale.end(second)
    tale.completed(second)


@bad("I6")
def two_effects_of_transactions(tale):
    tale.done(exactly_once=True)
    tale.effects += [{"mark": "mark-1"}] * 2


@bad("I6")
def a_transaction_without_its_effect(tale):
    tale.done(exactly_once=True)


@bad("I6")
def a_failed_transaction_leaves_its_effect(tale):
    tale.enqueue(exactly_once=True)
    run = tale.start()
    tale.end(run, "fail")
    tale.buried(run, exception="Bury")
    tale.effects.append({"mark": "mark-1"})


@bad("I10")
def a_ready_job_is_left(tale):
    tale.enqueue()


@bad("I10")
def a_claimed_job_is_left(tale):
    tale.enqueue()
    tale.start()


@bad("I11")
def a_claimed_job_is_left_overdue(tale):
    tale.enqueue()
    tale.put(tale.start(), retry_at_past_seconds=2.5)


@bad("I11")
def done_and_not_finished(tale):
    tale.done()
    tale.rows[1]["finished"] = False


@bad("I12")
def a_job_is_live_and_archived(tale):
    tale.done()
    tale.rows["copy"] = tale.rows[1] | {"place": "archive"}


@bad("I13")
def two_live_jobs_with_one_dedup_key(tale):
    tale.done(1)
    tale.done(2)
    for one in tale.rows.values():
        one["dedup_key"] = "a"


@bad("done")
def a_completion_is_overwritten(tale):
    run = tale.done()
    tale.put(run, status="buried", attempts=0, errors=[{"exception": "Bury"}])


@bad("done")
def another_has_the_completed_job(tale):
    run = tale.done(exactly_once=True)
    tale.effects.append({"mark": "mark-1"})
    tale.put(run, owner="worker-2.7")


@bad("buried")
def buried_without_a_cause(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.buried(run)


@bad("crashes")
def a_crash_is_not_counted(tale):
    crashed(tale)
    tale.rows[1]["crashes"] = 0
    tale.ran(pid=12)


@bad("crashes")
def a_crash_is_made_up(tale):
    tale.done()
    tale.rows[1]["crashes"] = 1


@bad("errors")
def a_failure_leaves_no_trace(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.failed(run)
    tale.put(run, errors=[])
    tale.wait(0.2)
    tale.ran()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_caught_by_the_verdict_meant(name):
    BAD.check(name)
