"""Jobs that may have killed a worker run apart, several at once, and stand in nobody's way."""

import os
import signal
import time
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import QuerySet

from django_dbqueue.lifecycle import suspects
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.states import Status
from django_dbqueue.worker import reconcile, waiting_suspects
from django_dbqueue.worker import suspects as suspect_claimers
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import Role, SharedMemory
from django_dbqueue.worker.suspects import SuspectClaimer, options_of
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.jobs import (
    fresh,
    lifecycle_of,
    overwrite,
    row_locked,
    table,
    table_gone,
    table_locked,
)
from tests.kit.processes import has_ended, open_gate, wait_for_lines, worker
from tests.kit.run_log import count, runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed, Fleeting, Mailed, Note

pytestmark = pytest.mark.usefixtures("db_rows")

WORKER = "a" * 32
QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "1.5"}


def suspect(crashes=1, losses=0, **fields):
    job = Note.objects.create(**fields)
    overwrite(job, crashes=crashes, losses=losses)
    return job


def taken(limit=10, alone=False, owner=f"{WORKER}.s2-1"):
    return suspects.take_over(table(), WORKER, owner, limit, alone, allowance=0)


# --- taking over ----------------------------------------------------------------------------------


def test_suspects_are_taken_over_and_nothing_else_is():
    Note.objects.create()
    suspect(losses=1, crashes=0)
    ours = {suspect().pk, suspect(crashes=0, losses=2).pk}
    claim(table(), "default", 10, f"{WORKER}.1-1")
    suspect()
    claim(table(), "default", 10, f"{'b' * 32}.1-1")
    jobs = taken()
    assert {job.pk for job in jobs} == ours
    assert {job.claim_owner for job in jobs} == {f"{WORKER}.s2-1"}
    assert {fresh(job).owner for job in jobs} == {f"{WORKER}.s2-1"}
    assert {fresh(job).attempts for job in jobs} == {1}
    assert taken(owner=f"{WORKER}.s3-1") == []


def test_who_has_crashed_twice_is_taken_over_by_those_that_run_one_at_a_time():
    alone = suspect(crashes=2)
    claim(table(), "default", 10, f"{WORKER}.1-1")
    assert taken() == []
    assert [job.pk for job in taken(alone=True)] == [alone.pk]


def test_what_was_given_back_before_it_is_not_taken_over():
    job = suspect()
    [held] = claim(table(), "default", 10, f"{WORKER}.1-1")
    held.release()
    before = lifecycle_of(job)
    assert taken() == []
    assert lifecycle_of(job) == before


def test_its_old_claim_can_write_nothing_any_more():
    suspect()
    claim(table(), "default", 10, f"{WORKER}.1-1")
    [job] = taken()
    assert suspects.still_held(table(), f"{WORKER}.1-1", [job.pk]) == set()
    assert suspects.still_held(table(), f"{WORKER}.s2-1", [job.pk]) == {job.pk}
    job.complete()
    assert fresh(job).status == Status.DONE


def test_suspects_of_several_queues_are_taken_over_queue_by_queue():
    for queue in ("one", "two", "one"):
        suspect(queue=queue)
    for number, queue in enumerate(("one", "two")):
        claim(table(), queue, 10, f"{WORKER}.1-{number}")
    both = [taken(owner=f"{WORKER}.s2-{number}") for number in (1, 2)]
    assert [[job.queue for job in jobs] for jobs in both] == [["one", "one"], ["two"]]


# --- the claimer of an ordinary child -------------------------------------------------------------


@pytest.fixture
def one():
    shared = SharedMemory(1)
    options = Options(served=parse_served(["queueapp.Note"]))
    bell = Wakeup({"default"})
    yield Claimer(options, f"{WORKER}.1-", Buffer(1), shared, bell, None, lambda: 0)
    bell.close()


def claim_with(one, condition):
    wait_until(lambda: [one.turn()] and condition())


def test_an_ordinary_child_keeps_what_is_sound_and_hands_suspects_over(one):
    sound, odd, lone = Note.objects.create(), suspect(), suspect(crashes=2)
    claim_with(one, lambda: len(one.buffer))
    assert [job.pk for job in one.buffer.get().jobs] == [sound.pk]
    assert (one.shared.handed_over(Role.SHARED), one.shared.handed_over(Role.ALONE)) == (1, 1)
    assert {fresh(job).status for job in (odd, lone)} == {Status.CLAIMED}


def test_suspects_that_were_taken_over_are_forgotten(one):
    job = suspect()
    claim_with(one, lambda: one.suspects)
    assert len(taken()) == 1
    claim_with(one, lambda: not one.suspects)
    assert one.shared.taken == 1
    assert fresh(job).owner == f"{WORKER}.s2-1"


def test_suspects_that_nobody_takes_over_are_given_back(one, monkeypatch):
    monkeypatch.setattr(one.suspects, "hold_seconds", 0.3)
    job = suspect()
    claim_with(one, lambda: one.suspects)
    one.shared.paused = True
    claim_with(one, lambda: not one.suspects)
    assert (fresh(job).status, fresh(job).attempts) == (Status.READY, 0)
    assert one.shared.taken == 0


def test_suspects_of_a_table_that_is_gone_keep_nothing_waiting(one, monkeypatch):
    monkeypatch.setattr(reconcile, "LOCKED_SECONDS", 0.1)
    job = suspect()
    claim_with(one, lambda: one.suspects)
    with table_gone(Note):
        claim_with(one, lambda: not one.suspects)
        assert one.backoff.failures == 0
    given_back_later(one, job)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_suspects_that_somebody_has_locked_keep_nothing_waiting(one, monkeypatch):
    monkeypatch.setattr(reconcile, "LOCKED_SECONDS", 0.1)
    job = suspect()
    claim_with(one, lambda: one.suspects)
    monkeypatch.setattr(one.suspects, "hold_seconds", 0.0)
    one.shared.paused = True
    with row_locked(job):
        claim_with(one, lambda: not one.suspects)
        assert one.backoff.failures == 0
    given_back_later(one, job)


def given_back_later(one, job):
    one.shared.paused = True
    one.reconciler.in_hand = set
    claim_with(one, lambda: fresh(job).status == Status.READY)
    assert fresh(job).attempts == 0


def test_more_suspects_than_can_wait_make_room_for_fresh_jobs(one, monkeypatch):
    monkeypatch.setattr(waiting_suspects, "SUSPECTS_MAX", 3)
    for _ in range(12):
        suspect()
    sound = Note.objects.create()
    claim_with(one, lambda: len(one.buffer))
    assert [job.pk for job in one.buffer.get().jobs] == [sound.pk]
    assert (len(one.suspects), Note.objects.delayed().count()) == (3, 9)
    assert set(Note.objects.delayed().values_list("attempts", flat=True)) == {0}


# --- the claimer of a sacrificial child -----------------------------------------------------------


@pytest.fixture
def apart():
    """One that serves three tables more, before that of the suspects."""
    shared = SharedMemory(1)
    names = ["queueapp.Deed", "queueapp.Mailed", "queueapp.Fleeting", "queueapp.Note"]
    options = options_of(Options(served=parse_served(names)), Role.SHARED)
    bell = Wakeup({"default"})
    given = f"{WORKER}.s2-", Buffer(1), shared, bell, None, lambda: 0
    yield SuspectClaimer(options, *given, role=Role.SHARED)
    bell.close()


def takes_over(apart, suspect):
    owner = f"{WORKER}.s2-"
    wait_until(lambda: [apart.turn()] and (fresh(suspect).owner or "").startswith(owner))
    return True


def test_suspects_wait_for_no_other_table_that_is_gone(apart, caplog):
    first, second = suspect(), suspect(queue="other")
    for queue in ("default", "other"):
        claim(table(), queue, 10, f"{WORKER}.1-{queue}")
    with table_gone(Deed), table_gone(Mailed), table_gone(Fleeting):
        assert takes_over(apart, first)
        assert takes_over(apart, second)
    assert apart.backoff.failures == 0
    assert caplog.text.count("queueapp.deed is left out: ") == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="its locks are the whole database's")
def test_suspects_wait_for_no_other_table_that_somebody_has_locked(apart):
    job = suspect()
    claim(table(), "default", 10, f"{WORKER}.1-1")
    with table_locked(Deed):
        assert takes_over(apart, job)


def test_a_table_that_was_left_out_is_looked_at_again(apart, monkeypatch):
    monkeypatch.setattr(suspect_claimers, "LOCKED_SECONDS", 0.1)
    job = suspect()
    claim(table(), "default", 10, f"{WORKER}.1-1")
    with table_gone(Note):
        for _ in range(3):
            apart.turn()
    assert takes_over(apart, job)


# --- whole workers --------------------------------------------------------------------------------


def enqueue_deeds(number, log, **fields):
    Deed.objects.bulk_create([Deed(log=log, **fields) for _ in range(number)])


def were_all_at_once(history, which):
    """Whether all of the jobs ran at one moment."""
    found = [runs_of_one[which] for runs_of_one in history.values()]
    return max(run.start for run in found) < min(run.end for run in found)


def test_what_ran_together_in_a_killed_child_runs_again_together(database_url, log):
    enqueue_deeds(8, log, action="wait_at_gate")
    with worker(database_url, "--threads", "8") as process:
        wait_for_lines(log, 8)
        [child] = process.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: len(process.children()) > 1)
        late = Note.objects.create()
        wait_until(lambda: fresh(late).status == Status.DONE)
        wait_until(lambda: count(log, "start") == 16)
        open_gate(log)
        wait_until(lambda: Deed.objects.done().count() == 8)
    assert set(Deed.objects.values_list("attempts", "crashes")) == {(1, 1)}
    assert were_all_at_once(runs(log), 1)


def test_what_a_lost_worker_ran_runs_again_at_once_and_together(database_url, log):
    enqueue_deeds(8, log, action="wait_at_gate")
    with worker(database_url, "--threads", "8", **QUICK) as host:
        wait_for_lines(log, 8)
        host.send_group(signal.SIGKILL)
    with worker(database_url, "--threads", "8", **QUICK):
        wait_until(lambda: count(log, "start") == 16)
        open_gate(log)
        wait_until(lambda: Deed.objects.done().count() == 8)
    assert set(Deed.objects.values_list("attempts", "crashes", "losses")) == {(1, 0, 1)}
    assert were_all_at_once(runs(log), 1)


def test_a_poison_pill_among_suspects_takes_none_of_them_with_it(database_url, log):
    enqueue_deeds(5, log, seconds=1)
    pill = Deed.objects.create(action="kill", seconds=0.3, log=log)
    with worker(database_url, "--threads", "6"):
        wait_until(lambda: fresh(pill).status == Status.BURIED)
        wait_until(lambda: Deed.objects.done().count() == 5)
    assert len(runs(log)[pill.pk]) == 3
    assert max(Deed.objects.done().values_list("crashes", flat=True)) <= 2


def test_a_job_that_kills_its_process_group_is_buried_within_five_kills(database_url, log):
    pill = Deed.objects.create(action="kill_group", log=log)
    enqueue_deeds(10, log, seconds=0.01)
    workers = 0
    while fresh(pill).status != Status.BURIED and workers < 5:
        workers += 1
        with worker(database_url, **QUICK) as process:
            wait_until(lambda: process.popen.poll() is not None or fresh(pill).finished_at)
    with worker(database_url, **QUICK):
        wait_until(lambda: Deed.objects.done().count() == 10)
    assert len(runs(log)[pill.pk]) <= 5
    assert workers == 3
    assert (fresh(pill).crashes, Deed.objects.buried().count()) == (3, 1)
    assert set(Deed.objects.done().values_list("crashes", flat=True)) <= {0, 1, 2}


def test_a_sacrificial_child_is_the_kernels_first_choice_and_has_its_own_group(database_url, log):
    suspect(log=log, seconds=60)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        [ours] = [pid for pid in process.children() if os.getpgid(pid) == pid]
        assert Path(f"/proc/{ours}/oom_score_adj").read_text().strip() == "1000"


def test_a_sacrificial_child_that_is_killed_has_a_successor(database_url, log):
    first, second = suspect(log=log, seconds=60), suspect(log=log, seconds=60)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        [ours] = [pid for pid in process.children() if os.getpgid(pid) == pid]
        overwrite(first, seconds=0)
        overwrite(second, seconds=0)
        os.kill(ours, signal.SIGKILL)
        wait_until(lambda: has_ended(ours))
        wait_until(lambda: Note.objects.done().count() == 2)
        wait_until(lambda: len(process.children()) == 1)
    assert sorted(Note.objects.values_list("crashes", flat=True)) == [1, 2]


def test_a_worker_that_stops_when_empty_waits_for_suspects_and_what_they_enqueue(database_url):
    suspect(action="enqueue", seconds=1)
    with worker(database_url, "--stop-when-empty") as process:
        assert process.end() == 0, process.stderr
    assert Note.objects.done().count() == 2


def test_a_suspect_that_runs_when_its_worker_is_told_to_stop_ends_first(database_url, log):
    job = suspect(log=log, seconds=1)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert (fresh(job).status, fresh(job).attempts) == (Status.DONE, 1)


def test_suspects_that_wait_are_given_back_when_their_worker_stops(database_url, log):
    for _ in range(30):
        suspect(log=log, seconds=0.5)
    with worker(database_url) as process:
        wait_for_lines(log, 1)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert Note.objects.claimed().count() == 0
    assert set(Note.objects.ready().values_list("attempts", "crashes")) == {(0, 1)}


def test_hundreds_of_suspects_are_run_within_moments(database_url):
    Note.objects.bulk_create([Note() for _ in range(300)])
    QuerySet(Note).update(losses=2)
    began = time.monotonic()
    with worker(database_url):
        wait_until(lambda: Note.objects.done().count() == 300)
    print(f"300 suspects in {time.monotonic() - began:.1f} s")
