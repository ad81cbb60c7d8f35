"""Jobs that end their process: buried after three deaths, and nobody beside them pays for it."""

import os
import re
import signal
import statistics
import time
from pathlib import Path

import pytest

from django_dbqueue.states import Status
from tests.kit.jobs import fresh
from tests.kit.processes import lines, wait_for_lines, worker
from tests.kit.run_log import runs, was_cut_off
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed, Once, Prompt

pytestmark = pytest.mark.usefixtures("db_rows")

KINDS = (
    *("exit_0", "segfault", "kill"),
    # These are like the first two.
    *(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("exit_3", "abort")),
)
QUICK = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "1"}


def among_neighbours(log, kind, neighbours=200, seconds=0.005, model=Deed, before=20):
    """A crash job with some neighbours in front of it and many behind, in a queue of its own."""
    rows = [model(queue=kind, seconds=seconds, log=log) for _ in range(neighbours)]
    rows.insert(before, model(queue=kind, action=kind, log=log))
    model.objects.bulk_create(rows)
    return model.objects.get(queue=kind, action=kind)


def settled(model, queue, neighbours=200):
    rows = model.objects.filter(queue=queue)
    return rows.buried().count() == 1 and rows.done().count() == neighbours


def judge_poison(job, history):
    job = fresh(job)
    assert (job.status, job.crashes, job.attempts) == (Status.BURIED, 3, 0), vars(job)
    assert [entry["exception"] for entry in job.errors] == ["WorkerLost"] * 3
    assert len({entry["owner"] for entry in job.errors}) == 3
    assert len(history[job.pk]) == 3


def charges(model, queue):
    """(attempts, crashes) of the neighbours -> how many."""
    rows = model.objects.filter(queue=queue).done().values_list("attempts", "crashes")
    return {charge: list(rows).count(charge) for charge in rows}


def deaths_by(job, history):
    """pid -> when the crash job started in it, which is when it died."""
    return {run.pid: run.start for run in history[job.pk]}


def crash(log, job, neighbours=200):
    history = runs(log)
    judge_poison(job, history)
    others = {key: found for key, found in history.items() if key != job.pk}
    assert len(others) == neighbours
    again = {key: found for key, found in others.items() if len(found) > 1}
    return history, again


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_job_is_buried_after_three_starts_and_charges_no_neighbour(database_url, log, kind):
    job = among_neighbours(log, kind)
    with worker(database_url, f"queueapp.Deed:{kind}") as process:
        wait_until(lambda: settled(Deed, kind))
        process.send(signal.SIGTERM)
        assert process.end() == 0
        history, again = crash(log, job)
    assert charges(Deed, kind) == {(1, 0): 200}
    deaths = deaths_by(job, history)
    for first, *more in again.values():
        # It had ended, but its outcome was still waiting for others to be written with.
        assert len(more) == 1
        assert first.end is not None
        assert was_cut_off(first, deaths)
    print(f"{kind}: 3 starts, 200 neighbours done, {len(again)} of them twice (unwritten outcome)")


def test_outcomes_that_are_written_at_once_are_not_repeated_after_a_crash(database_url, log):
    job = among_neighbours(log, "segfault", neighbours=50, model=Prompt)
    with worker(database_url, "queueapp.Prompt"):
        wait_until(lambda: settled(Prompt, "segfault", 50))
    _, again = crash(log, job, neighbours=50)
    assert (again, charges(Prompt, "segfault")) == ({}, {(1, 0): 50})


def test_an_exit_with_code_0_ends_no_worker_that_stops_when_empty(database_url, log):
    job = among_neighbours(log, "exit_0", neighbours=50)
    with worker(database_url, "--stop-when-empty") as process:
        assert process.end(60) == 0
    assert len(re.findall(r"child \d+ died", process.stderr)) == 3
    judge_poison(job, runs(log))
    assert charges(Deed, "exit_0") == {(1, 0): 50}


@pytest.mark.proof
def test_what_ran_in_other_threads_runs_again_apart_from_all_but_suspects(database_url, log):
    job = among_neighbours(log, "kill", seconds=0.02)
    with worker(database_url, "queueapp.Deed", "--threads", "4"):
        wait_until(lambda: settled(Deed, "kill"))
    history, again = crash(log, job)
    deaths = deaths_by(job, history)
    assert {attempts for attempts, _ in charges(Deed, "kill")} == {1}
    for first, *more in again.values():
        # Once more as a fellow suspect, then alone.
        assert len(more) <= 2
        assert all(was_cut_off(run, deaths) for run in [first, *more[:-1]])
    charged = set(Deed.objects.done().filter(crashes__gt=0).values_list("pk", flat=True))
    assert len(charged) <= 3
    everything = [run for found in history.values() for run in found]
    fresh_ones = [run for run in everything if not run.crashes]
    suspects = [run for run in everything if run.crashes]
    assert not [(one, other) for one in suspects for other in fresh_ones if one.overlaps(other)]
    last = history[job.pk][2]
    assert not [other for other in everything if last.overlaps(other)]
    print(f"4 threads: {len(again)} of 200 ran again, {len(charged)} with a crash, apart")


@pytest.mark.each_database
def test_a_job_that_runs_out_of_memory_in_python_has_merely_failed(database_url, log):
    job = Deed.objects.create(action="hog", log=log)
    others = Deed.objects.bulk_create([Deed(log=log) for _ in range(20)])
    with worker(database_url):
        wait_until(lambda: fresh(job).status == Status.BURIED)
        wait_until(lambda: Deed.objects.done().count() == len(others))
    assert [entry["exception"] for entry in fresh(job).errors] == ["MemoryError"] * 3
    assert fresh(job).crashes == 0
    assert len({run.pid for found in runs(log).values() for run in found}) == 1


def test_a_single_attempt_is_not_spent_on_a_host_that_is_killed(database_url, log):
    first = Once.objects.create(seconds=30, log=log)
    behind = [Once.objects.create(log=log) for _ in range(8)]
    with worker(database_url, "--batch-size", "10") as host:
        wait_for_lines(log, 1)
        assert Once.objects.claimed().count() == 9
        host.send_group(signal.SIGKILL)
    Once.objects.filter(pk=first.pk).update(seconds=0)
    with worker(database_url, **QUICK):
        wait_until(lambda: Once.objects.done().count() == 9)
    assert set(Once.objects.values_list("attempts", flat=True)) == {1}
    history = runs(log)
    assert {len(history[job.pk]) for job in behind} == {1}
    assert len(history[first.pk]) == 2


@pytest.mark.proof
def test_a_worker_survives_thirty_crashes_and_has_its_one_child_afterwards(database_url, log, full):
    crashes = 30 if full else 6
    poison = Deed.objects.bulk_create([Deed(action="kill", log=log) for _ in range(crashes // 3)])
    with worker(database_url) as process:
        began = time.monotonic()
        wait_until(lambda: Deed.objects.buried().count() == len(poison), seconds=30 + 30 * crashes)
        seconds = time.monotonic() - began
        last = Deed.objects.create(log=log)
        wait_until(lambda: fresh(last).status == Status.DONE)
        assert process.popen.poll() is None
        wait_until(lambda: len(process.children()) == 1)
    assert len(lines(log)) == crashes + 2
    print(f"{crashes} crashes survived in {seconds:.1f} s")


def test_children_that_die_with_nothing_in_hand_come_back_later_and_later(database_url):
    pause = re.compile(r"children keep dying young; the next one starts in (\S+) s")
    with worker(database_url) as process:
        dead = []
        while len(pause.findall(process.stderr)) < 4:
            [child] = wait_until(lambda: [pid for pid in process.children() if pid not in dead])
            dead.append(child)
            os.kill(child, signal.SIGKILL)
            wait_until(lambda: len(re.findall(r"child \d+ died", process.stderr)) == len(dead))
        assert pause.findall(process.stderr) == ["0.2", "0.4", "0.8", "1.6"]


@pytest.mark.nightly
@pytest.mark.proof
def test_other_work_goes_on_at_four_fifths_of_its_rate_while_a_job_crashes(database_url, log, full):
    """Two processes; the same work without and with a crash job in another queue, in turn."""
    if not full:
        assert rate_of(database_url, log, poisoned=True)
        return
    rates = {False: [], True: []}
    for _ in range(5):
        for poisoned in (False, True):
            rates[poisoned].append(rate_of(database_url, log, poisoned))
    normal, beside = (statistics.median(rates[poisoned]) for poisoned in (False, True))
    print(
        f"jobs ended in the second after the first crash {rates[True]}, "
        f"in the same second without one {rates[False]}: {beside / normal:.0%}"
    )
    assert beside >= 0.8 * normal


def rate_of(database_url, log, poisoned):
    """How many of 200 steady jobs end in the second in which another one crashes three times."""
    Deed.objects.all()._raw_delete("default")
    crashes = Path(f"{log}.poison")
    for file in (Path(log), crashes):
        file.unlink(missing_ok=True)
    Deed.objects.bulk_create([Deed(queue="steady", seconds=0.03, log=log) for _ in range(200)])
    with worker(database_url, "queueapp.Deed", "--processes", "2"):
        wait_for_lines(log, 80)
        begin = time.monotonic()
        if poisoned:
            poison = Deed.objects.create(queue="poison", action="kill", log=str(crashes))
            wait_until(lambda: fresh(poison).status == Status.BURIED, 60)
            begin = runs(str(crashes))[poison.pk][0].start
        wait_until(lambda: Deed.objects.filter(queue="steady").done().count() == 200, 60)
    ends = [run.end for history in runs(log).values() for run in history[:1] if run.end]
    assert max(ends) > begin + 1
    return sum(begin < end < begin + 1 for end in ends)
