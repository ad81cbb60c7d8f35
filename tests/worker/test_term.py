"""TERM at any moment: no claim after it, nobody charged who had not started, gone in time."""

import random
import signal
import time

import pytest
from django.db.models import Max

from django_dbqueue.fields import DbNow
from django_dbqueue.states import Status
from tests.kit.processes import wait_for_lines, worker
from tests.kit.run_log import UNWRITTEN, runs
from tests.kit.waiting import wait_until
from tests.queueapp.models import Deed

pytestmark = pytest.mark.usefixtures("db_rows")

SEED = 20
IN_FLIGHT = 0.5  # seconds; a claim that was under way as TERM came


def database_now():
    return Deed.objects.annotate(clock=DbNow()).values_list("clock", flat=True)[0]


class Round:
    """A worker under a load that outlasts it, told to stop at a random moment."""

    def __init__(self, database_url, log, dice):
        self.url, self.log, self.dice = database_url, log, dice
        self.grace = dice.choice([0.5, 1.0, 5.0])
        self.latest = None
        self.unstarted = 0

    def load(self):
        jobs = [Deed(seconds=self.dice.uniform(0.005, 0.05), log=self.log) for _ in range(400)]
        if self.grace < 5:
            for _ in range(4):
                jobs[self.dice.randrange(60)].seconds = self.dice.uniform(0.3, 3 * self.grace)
        Deed.objects.bulk_create(jobs)

    def run(self):
        processes, threads = self.dice.choice([(1, 1), (1, 3), (2, 1)])
        sizes = ["--processes", str(processes), "--threads", str(threads)]
        grace = ["--shutdown-timeout", str(self.grace)]
        with worker(self.url, "queueapp.Deed", *sizes, *grace) as process:
            wait_for_lines(self.log, 1)
            pause = time.monotonic() + self.dice.uniform(0, 1)
            wait_until(lambda: time.monotonic() >= pause)
            self.told_at = database_now()
            self.began = time.monotonic()
            process.send(signal.SIGTERM)
            wait_until(lambda: self.watch_claims() or process.popen.poll() is not None, 60)
            self.seconds = time.monotonic() - self.began
            assert process.end() == 0, process.stderr
        self.watch_claims()

    def watch_claims(self):
        """Also of those that are given back later, and then do not tell any more."""
        seen = Deed.objects.aggregate(latest=Max("dequeued_time"))["latest"]
        self.latest = max(filter(None, [self.latest, seen]), default=None)

    @property
    def lateness(self):
        """Seconds from TERM to the last claim; below 0 when there was none."""
        return (self.latest - self.told_at).total_seconds()

    def judge(self):
        """How many jobs were cut off."""
        history, cut_off = runs(self.log), 0
        for job in Deed.objects.all():
            found = history[job.pk]
            assert len(found) <= 1
            assert (job.crashes, job.errors) == (0, [])
            if found and not self.was_cut_off(found[0], job):
                assert (job.status, job.attempts) == (Status.DONE, 1)
            else:
                cut_off += len(found)
                self.unstarted += not found
                assert (job.status, job.attempts) == (Status.READY, 0)
        return cut_off

    def was_cut_off(self, run, job):
        """Whether it still ran as the grace was over, or its outcome was not yet written."""
        over = self.began + self.grace
        ended_late = run.end is not None and run.end > over - UNWRITTEN
        return run.end is None or (ended_late and job.status == Status.READY)


@pytest.mark.timing
@pytest.mark.proof
def test_after_term_nothing_is_claimed_or_charged_and_the_worker_leaves_in_time(
    database_url, log, full
):
    dice, rounds, cut_off = random.Random(SEED), [], 0
    for number in range(100 if full else 3):
        Deed.objects.all()._raw_delete("default")
        one = Round(database_url, f"{log}.{number}", dice)
        one.load()
        one.run()
        cut_off += one.judge()
        rounds.append(one)
    latest = max(one.lateness for one in rounds)
    longest = max(one.seconds - one.grace for one in rounds)
    print(
        f"seed {SEED}: {len(rounds)} TERMs, {cut_off} jobs cut off, "
        f"{sum(one.unstarted for one in rounds)} not started and not charged; "
        f"last claim {latest:+.3f} s from TERM, "
        f"exit {longest:+.2f} s from the end of the grace time at the latest"
    )
    assert latest < IN_FLIGHT
    assert longest < 1 or not full
