"""Good histories, whatever was killed, frozen or away in them: the checker objects to nothing."""

import pytest

from tests.kit.histories import crashed, finish, taken_on_the_brink, told, until_its_end

GOOD = {}


def good(tell):
    GOOD[tell.__name__] = tell
    return tell


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
def a_supervisor_is_killed_and_its_jobs_are_given_back_uncharged(tale):
    tale.enqueue()
    run = tale.start()
    tale.events.pop()
    tale.kill(10, supervisor=True, target="worker-1")
    tale.reaped(run)
    tale.ran(pid=21)


@good
def a_kill_right_after_the_commit(tale):
    tale.drop(tale.completed(until_its_end(tale)))
    tale.kill(11)


@good
def a_kill_right_before_the_commit(tale):
    run = until_its_end(tale)
    tale.kill(11)
    tale.reaped(run, pid=10)
    tale.ran(pid=12)


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
def a_child_is_stopped_for_a_job_that_was_taken_from_it_and_is_over_its_time(tale):
    tale.enqueue(1)
    tale.enqueue(2)
    tale.effect(tale.start(1))
    tale.stop(10, 11)
    tale.wait(1.5)
    tale.reaped({"key": 1, "owner": tale.rows[1]["owner"], "pid": 11})
    tale.cont(10, 11)
    tale.ran(1, pid=21)
    tale.wait(tale.settings.time_to_run)
    tale.reaped(tale.start(2), pid=10, charged=False)
    tale.ran(2, pid=12)


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


@pytest.mark.parametrize("name", GOOD)
def test_a_good_history_passes(name):
    report = told(GOOD[name]).report()
    assert {n: report.verdicts[n].violations for n in report.broken} == {}
    assert report.holds


def test_the_order_of_the_events_given_does_not_matter():
    tale = told(a_zombie_is_refused)
    tale.events.reverse()
    assert tale.report().holds
