"""Workers that are stopped for longer than they may be silent, and then go on."""

import signal
import time

import pytest

from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker import joint_claim
from django_dbqueue.worker.buffer import Buffer
from django_dbqueue.worker.claimer import Claimer
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from django_dbqueue.worker.shared_memory import SharedMemory
from django_dbqueue.worker.wakeup import Wakeup
from tests.kit.jobs import fresh, lifecycle_of
from tests.kit.processes import open_gate, worker
from tests.kit.run_log import count, runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed

pytestmark = pytest.mark.usefixtures("db_rows")

TIMEOUT = 1.0
ENVIRONMENT = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": str(TIMEOUT)}
# What the job does by itself after the freeze; the last two leave the late write to the worker.
OWN_WRITES = ("save", "complete", "touch", "release", "bury")
WRITES = ("save", "complete", "return", "touch", "release", "bury", "fail")
BUFFERED = 4


def refusals(process):
    return sum("ClaimLost" in line for line in process.stderr.splitlines())


def is_alive(uuid):
    return Worker.objects.filter(pk=uuid, stopped_at=None).exists()


def holder_of(job, processes):
    uuid = fresh(job).owner.partition(".")[0]
    [found] = [one for one in processes if one.pid == Worker.objects.get(pk=uuid).pid]
    return found


class Freeze:
    """One worker is frozen with a job running and some buffered, relieved, and woken."""

    def __init__(self, number, log, processes, seconds):
        self.log = f"{log}.{number}"
        self.seconds = seconds
        self.write = WRITES[number % len(WRITES)]
        # Whether the heir still runs the job, or is done with it, when the first owner wakes.
        self.heir_is_done = bool((number + number // len(WRITES)) % 2)
        action = f"late_{self.write}"
        Deed.objects.bulk_create(
            [Deed(action=action, log=self.log)] + [Deed(log=self.log) for _ in range(BUFFERED)]
        )
        self.job, *self.behind = Deed.objects.filter(log=self.log).order_by("pk")
        wait_until(lambda: self.job.pk in runs(self.log))
        self.frozen = holder_of(self.job, processes)
        self.owner = fresh(self.job).owner
        # The other worker may have been quick enough to take some of them.
        self.buffered = Deed.objects.claimed().filter(owner=self.owner).count() - 1

    def run(self):
        self.frozen.freeze()
        stopped = time.monotonic()
        if self.heir_is_done:
            open_gate(self.log, "heir")
            wait_until(lambda: fresh(self.job).status == Status.DONE)
        else:
            wait_until(lambda: len(runs(self.log)[self.job.pk]) == 2)
        wait_until(lambda: time.monotonic() - stopped >= self.seconds)
        before = lifecycle_of(self.job)
        assert before["owner"] != self.owner
        self.wake()
        assert lifecycle_of(self.job) == before
        open_gate(self.log, "heir")

    def wake(self):
        """Let it go on, and wait until it has tried to write and beats again."""
        refused = refusals(self.frozen)
        uuid = self.owner.partition(".")[0]
        wait_until(lambda: not is_alive(uuid))
        self.frozen.send_group(signal.SIGCONT)
        open_gate(self.log, "frozen")
        wait_until(lambda: refusals(self.frozen) > refused)
        wait_until(lambda: is_alive(uuid))

    def judge(self):
        """All is as if the frozen worker had never had the job, but that it was lost with it."""
        job, history = fresh(self.job), runs(self.log)
        assert len(history[job.pk]) == 2
        assert (job.crashes, job.losses) == (0, 1)
        assert [len(history[one.pk]) for one in self.behind] == [1] * BUFFERED
        assert {fresh(one).status for one in self.behind} == {Status.DONE}
        assert (job.status, job.attempts, len(job.errors)) == (Status.DONE, 1, 0)
        heir = history[job.pk][1].pid
        assert job.text == (f"saved by {heir}" if self.write == "save" else "")


@pytest.mark.timing
@pytest.mark.proof
def test_every_late_write_of_a_frozen_worker_is_refused_and_has_no_effect(database_url, log, full):
    rounds, seconds, freezes = 30 if full else 3, TIMEOUT * (3 if full else 1), []
    args = ("queueapp.Deed", "--batch-size", str(1 + BUFFERED))
    with (
        worker(database_url, *args, **ENVIRONMENT) as one,
        worker(database_url, *args, **ENVIRONMENT) as two,
    ):
        processes = [one, two]
        wait_until(lambda: Worker.objects.alive(TIMEOUT).count() == 2)
        for number in range(rounds):
            freeze = Freeze(number, log, processes, seconds)
            freezes.append(freeze)
            freeze.run()
            wait_until(lambda: not Deed.objects.exclude(status=Status.DONE).exists())
        for process in processes:
            process.send(signal.SIGTERM)
            assert process.end() == 0
    for freeze in freezes:
        freeze.judge()
    refused = sum(refusals(process) for process in processes)
    by_the_jobs = sum(count(freeze.log, f"refused-{freeze.write}") for freeze in freezes)
    assert refused >= rounds
    assert by_the_jobs == sum(freeze.write in OWN_WRITES for freeze in freezes)
    buffered = sum(freeze.buffered for freeze in freezes)
    assert buffered
    print(
        f"{rounds} freezes of {seconds:g} s: {refused} late writes refused ({by_the_jobs} of "
        f"them in the job itself), none had effect; {buffered} buffered jobs not run late"
    )


def test_a_claim_in_flight_while_the_worker_was_taken_for_dead_is_asked_for_again(monkeypatch):
    """It was frozen between the statement and its answer; its supervisor woke first."""
    shared, buffer = SharedMemory(1), Buffer(1)
    shared.beat("default", time.monotonic(), 1)

    def claim_while_frozen(*args):
        jobs = claim(*args)
        shared.beat("default", time.monotonic(), 2)
        return jobs

    monkeypatch.setattr(joint_claim, "claim", claim_while_frozen)
    Deed.objects.create()
    options = Options(served=parse_served(["queueapp.Deed"]))
    claimer = Claimer(
        options,
        "w.1-",
        buffer,
        shared,
        Wakeup({"default"}),
        share=None,
        unwritten=lambda: 0,
    )
    claimer.turn()
    # A runner touches it before it starts.
    assert buffer.get().epoch != shared.epoch("default")
