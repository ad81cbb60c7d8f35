"""The checker of histories: each bad one is caught by the verdict meant, and no good one."""

import pytest

from django_dbqueue.torture.verdicts import percentile
from tests.kit.histories import Tale

GOOD, BAD = {}, {}


def good(tell):
    GOOD[tell.__name__] = tell
    return tell


def bad(*verdicts):
    def keep(tell):
        BAD[tell.__name__] = verdicts, tell
        return tell

    return keep


def claimed_twice(tale):
    """The second claim of a job whose first is still running."""
    tale.enqueue()
    first = tale.start(pid=11)
    tale.put(first, attempts=0)
    return tale.start(pid=21)


def finish(tale, run):
    tale.effect(run)
    tale.end(run)
    tale.completed(run)


def crashed(tale):
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.reaped(run, pid=10)
    return run


# Good ones


@good
def a_plain_life(tale):
    for key in range(5):
        tale.done(key)


@good
def a_child_is_killed_in_a_job(tale):
    crashed(tale)
    tale.ran(pid=12)


@good
def a_worker_is_killed_with_its_supervisor_and_the_notes_of_who_reaps_are_lost(tale):
    tale.enqueue()
    run = tale.start()
    tale.kill(10, 11, group=True, target="worker-1")
    tale.drop(tale.reaped(run))
    tale.wait(1.2)
    tale.ran(pid=21)


@good
def a_supervisor_is_killed_and_nobody_knows_what_had_started(tale):
    tale.enqueue()
    run = tale.start()
    tale.events.pop()
    tale.kill(10, supervisor=True, target="worker-1")
    tale.reaped(run)
    tale.ran(pid=21)


@good
def a_kill_right_after_the_commit(tale):
    tale.drop(tale.completed(_until_its_end(tale)))
    tale.kill(11)


@good
def a_kill_right_before_the_commit(tale):
    run = _until_its_end(tale)
    tale.kill(11)
    tale.reaped(run, pid=10)
    tale.ran(pid=12)


def _until_its_end(tale):
    tale.enqueue()
    run = tale.start()
    tale.effect(run)
    tale.end(run)
    return run


@good
def a_zombie_is_refused(tale):
    tale.enqueue()
    run = tale.start()
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.reaped(run)
    second = tale.start(pid=21)
    tale.cont(10, 11)
    tale.effect(run)
    tale.end(run)
    tale.note("lost", "info", 11, key=1, owner=run["owner"])
    finish(tale, second)


@good
def a_frozen_worker_starts_from_its_buffer_what_another_has_done(tale):
    tale.enqueue()
    late = {"key": 1, "mark": "mark-1", "owner": "worker-1.9", "pid": 11}
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.ran(pid=21)
    tale.cont(10, 11)
    tale.note("start", "invoke", **late, attempt=1, crashes=0)
    tale.effect(late)


@good
def a_frozen_worker_starts_from_its_buffer_what_another_runs(tale):
    tale.enqueue()
    late = {"key": 1, "mark": "mark-1", "owner": "worker-1.9", "pid": 11}
    tale.stop(10, 11)
    tale.wait(1.5)
    run = tale.start(pid=21)
    tale.cont(10, 11)
    tale.note("start", "invoke", **late, attempt=1, crashes=0)
    finish(tale, run)


def taken_on_the_brink(tale):
    """What had been handed to a thread counts as started."""
    tale.enqueue()
    tale.rows[1] |= {"attempts": 1}
    late = {"key": 1, "mark": "mark-1", "owner": "worker-1.9", "pid": 11}
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.reaped(late)
    tale.ran(pid=21)
    return late


@good
def a_frozen_worker_starts_what_was_taken_from_it_on_the_brink(tale):
    late = taken_on_the_brink(tale)
    tale.cont(10, 11)
    tale.note("start", "invoke", **late, attempt=1, crashes=0)
    tale.effect(late)


@good
def enqueues_with_unknown_answers(tale):
    tale.ran(tale.enqueue(1, answer="info"))
    tale.rows.pop(tale.enqueue(2, answer="info"))
    tale.ran(tale.enqueue(3, answer=None))
    tale.enqueue(4, answer="fail")


@good
def the_database_is_away(tale):
    tale.enqueue()
    run = tale.start()
    tale.note("db_kill", "info", 2)
    tale.effect(run)
    tale.end(run)
    tale.wait(3)
    tale.note("db_up", "info", 2)
    tale.reaped(run)
    tale.ran(pid=21)


@good
def the_database_only_reads(tale):
    tale.note("read_only", "info", 2, on=True)
    tale.enqueue()
    run = tale.start()
    tale.note("read_only", "info", 2, on=False)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@good
def a_connection_is_lost(tale):
    tale.enqueue()
    run = tale.start()
    tale.note("conn_kill", "info", 2)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@good
def it_fails_until_it_is_buried_and_kicked(tale):
    tale.enqueue()
    for attempt in range(3):
        run = tale.start()
        tale.end(run, "fail")
        tale.failed(run) if attempt < 2 else tale.buried(run)
        tale.wait(0.11)
    tale.kick()
    tale.ran()


@good
def it_asks_to_be_buried(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    tale.buried(run, exception="Bury")


@good
def a_failure_is_noted_after_the_next_start(tale):
    tale.enqueue()
    run = tale.start()
    tale.end(run, "fail")
    note = tale.failed(run, retry_in=0)
    tale.events.remove(note)
    second = tale.start(pid=21)
    tale.wait(0.01)
    tale.events.append(note | {"t": tale.now})
    finish(tale, second)


@good
def a_delayed_job_waits(tale):
    tale.enqueue(delay=2)
    tale.wait(2)
    tale.ran()


@good
def a_pause_leaves_what_is_claimed(tale):
    tale.enqueue(1)
    tale.enqueue(2)
    tale.note("pause", queue="default")
    run = tale.start(1)
    finish(tale, run)
    tale.wait(3)
    finish(tale, tale.start(2, owner=run["owner"]))
    tale.note("resume", queue="default")


@good
def a_job_is_buried_and_another_cancelled_by_hand(tale):
    tale.enqueue(1)
    tale.note("bury", key=1)
    tale.rows[1] |= {"status": "buried", "finished": True}
    tale.enqueue(2)
    tale.note("cancel", key=2)
    tale.rows.pop(2)
    tale.enqueue(3)
    tale.note("cancel", key=3)
    tale.rows[3] |= {"place": "archive", "finished": True}


@good
def one_effect_of_a_transaction_over_two_runs(tale):
    tale.enqueue(exactly_once=True)
    run = tale.start()
    tale.kill(11)
    tale.reaped(run, pid=10)
    second = tale.start(pid=12)
    tale.end(second)
    tale.completed(second)
    tale.effects.append({"mark": "mark-1"})


# Bad ones


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
    run = _until_its_end(tale)
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


@bad("I7")
def it_runs_again_without_a_cause(tale):
    run = _until_its_end(tale)
    tale.put(run, attempts=0)
    tale.ran(pid=21)


@bad("I7")
def it_runs_again_because_somebody_else_was_killed(tale):
    run = _until_its_end(tale)
    tale.kill(20, 21, group=True, target="worker-2")
    tale.put(run, attempts=0)
    tale.ran(pid=31)


@bad("I7")
def it_runs_again_after_a_kill_before_its_start(tale):
    tale.kill(10, supervisor=True, target="worker-1")
    tale.wait(1)
    run = _until_its_end(tale)
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


def told(tell):
    tale = Tale()
    tell(tale)
    return tale


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_passes(name):
    report = told(GOOD[name]).report()
    assert {n: report.verdicts[n].offences for n in report.broken} == {}
    assert report.holds


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_is_caught_by_the_verdict_meant(name):
    expected, tell = BAD[name]
    report = told(tell).report()
    assert report.broken == [*expected], {n: report.verdicts[n].offences for n in report.broken}
    assert not report.holds


def test_there_are_enough_of_both():
    assert (len(GOOD) >= 8, len(BAD) >= 24) == (True, True)


def test_every_verdict_has_a_history_that_breaks_it():
    assert {name for names, _ in BAD.values() for name in names} == {*Tale().report().verdicts}


def test_duplicates_and_kills_are_told_by_their_kind():
    tale = Tale()
    for key, group in enumerate([False, False, True]):
        tale.enqueue(key)
        run = tale.start(key)
        tale.kill(11, **({"group": True, "target": "worker-1"} if group else {}))
        tale.reaped(run)
        tale.ran(key, pid=21)
    tale.enqueue(9)
    run = tale.start(9)
    tale.end(run, "fail")
    tale.failed(run)
    tale.wait(0.2)
    tale.ran(9)
    figures = tale.report().figures
    assert (figures.jobs, figures.unexplained, figures.lost) == (4, 0, 0)
    assert figures.duplicates == {"kill": 3, "failed": 1}
    assert figures.kills == {"child": 2, "group": 1}


def test_a_hand_over_counts_from_the_last_kill_to_the_next_start():
    tale = Tale()
    tale.enqueue(1)
    run = tale.start(1)
    tale.kill(11)
    tale.wait(0.5)
    tale.reaped(run, pid=10)
    tale.ran(1, pid=12)
    tale.enqueue(2)
    run = tale.start(2)
    tale.kill(11)
    tale.wait(3)
    tale.kill(10, supervisor=True, target="worker-1")
    tale.wait(2)
    tale.reaped(run)
    tale.ran(2, pid=21)
    figures = tale.report().figures
    assert [round(s, 1) for s in figures.handover_supervised] == [0.5]
    assert [round(s, 1) for s in figures.handover_alone] == [2.0]


def test_what_a_second_killed_worker_had_fetched_counts_from_there():
    tale = Tale()
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.reaped(run, pid=10)
    tale.wait(3)
    tale.note("reaped", pid=20, key=1, owner="another", verdict="ready", charged=False)
    tale.wait(0.5)
    tale.ran(pid=31)
    assert [round(s, 1) for s in tale.report().figures.handover_supervised] == [0.5]


def test_what_an_outage_held_up_is_no_hand_over():
    tale = Tale()
    tale.enqueue()
    run = tale.start()
    tale.kill(11)
    tale.note("db_kill", "info", 2)
    tale.wait(5)
    tale.note("db_up", "info", 2)
    tale.reaped(run, pid=10)
    tale.ran(pid=12)
    report = tale.report()
    assert report.holds
    assert report.figures.handover_supervised == []


def test_the_order_of_the_events_given_does_not_matter():
    tale = told(a_zombie_is_refused)
    tale.events.reverse()
    assert tale.report().holds


def test_percentiles_of_none_and_of_some():
    assert percentile([], 0.5) is None
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0], 0.99) == 3.0
