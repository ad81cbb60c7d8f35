"""Enqueues test jobs, in every way there is, until it is told to stop."""

import random
import signal
import threading
import time
from typing import Any

from django.db import connections, transaction
from django.db.utils import Error

from .models import TestJob
from .recorder import history, tell

QUEUES = ("default", "mail", "reports")
ACTIONS = ("work",) * 12 + ("fail", "retry", "touch", "release", "bury", "exact", "exact")
BATCH_MAX = 20  # jobs in one transaction
PAUSE_SECONDS = 0.005  # between two transactions, at least
OUTAGE_SECONDS = 0.1  # after one that did not work
stop = threading.Event()

Batch = list[dict[str, Any]]


class Producer:
    """Keeps up a rate; its seed decides what it enqueues."""

    def __init__(self, number: int, long_jobs: float, seed: int) -> None:
        self.rng = random.Random(f"{seed} producer {number}")
        self.long_jobs = long_jobs
        self.began = time.monotonic()

    def run(self, rate: float) -> None:
        """Until it is told to stop; what an outage has kept it from is made up for."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, lambda *_: stop.set())
        made = tried = 0
        while not stop.is_set():
            tried += 1
            batch = self._batch(f"{history().who}-{self.began:.0f}-{tried}")
            has_worked = Attempt(self.rng, batch).make()
            made += len(batch) if has_worked else 0
            due_in = self.began + made / rate - time.monotonic()
            stop.wait(max(PAUSE_SECONDS if has_worked else OUTAGE_SECONDS, due_in))
        connections.close_all()

    def _batch(self, prefix: str) -> Batch:
        """Jobs of one transaction, with one delay."""
        rng, batch = self.rng, []
        count = 1 if rng.random() < 0.5 else rng.randint(2, BATCH_MAX)
        delay = rng.choice([0, 0, 0, 0, rng.uniform(0.1, 5)])
        for place in range(count):
            is_long = rng.random() < self.long_jobs
            job = {
                "mark": f"{prefix}.{place}",
                "action": rng.choice(ACTIONS),
                "queue": rng.choice(QUEUES),
                "priority": rng.choice([0, 1024, 1024, 1024, 5000]),
                "seconds": rng.uniform(0.3, 1.5) if is_long else rng.uniform(0, 0.04),
                "delay": delay,
            }
            batch.append(job)
        return batch


class Attempt:
    """One transaction: what it tried, and what is known of its end."""

    def __init__(self, rng: random.Random, batch: Batch) -> None:
        self.rng = rng
        self.batch = batch
        self.keys: dict[str, int] = {}
        # The answer of the commit is what is waited for.
        self.is_committing = False
        self.undone = False
        # Found to have a twin, so that it was not made.
        self.refused: set[str] = set()

    def make(self) -> bool:
        """Whether the database took part."""
        for job in self.batch:
            exact = {"exactly_once": True} if job["action"] == "exact" else {}
            delay = {"delay": job["delay"]} if job["delay"] else {}
            tell("enqueue", "invoke", mark=job["mark"], queue=job["queue"], **delay, **exact)
        ways = [self._create, self._in_bulk, self._many]
        if len(self.batch) == 1:
            ways = [self._create, self._once]
        elif self.batch[0]["delay"]:
            ways = [self._create, self._many]
        try:
            with transaction.atomic():
                self.rng.choice(ways)()
                self.undone = self.rng.random() < 0.1
                transaction.set_rollback(self.undone)
                self.is_committing = not self.undone
        except Error:
            connections.close_all()
            self._close("info" if self.is_committing else "fail")
            return False
        self._close("fail" if self.undone else "ok")
        return True

    def _close(self, outcome: str) -> None:
        for job in self.batch:
            mark = job["mark"]
            key = {"key": self.keys[mark]} if outcome == "ok" and mark in self.keys else {}
            kind = "fail" if mark in self.refused else outcome
            tell("enqueue", kind, mark=mark, queue=job["queue"], **key)

    def _create(self) -> None:
        for job in self.batch:
            made: Any = TestJob.objects.enqueue(**job).job
            self.keys[job["mark"]] = made.pk

    def _once(self) -> None:
        """With a key that others have, too."""
        [job] = self.batch
        made, is_new = TestJob.objects.enqueue(dedup_key=f"twin-{self.rng.randrange(5)}", **job)
        if is_new and made is not None:
            self.keys[job["mark"]] = made.pk
        else:
            self.refused.add(job["mark"])

    def _in_bulk(self) -> None:
        jobs = [TestJob(**_without_delay(job)) for job in self.batch]
        self.keys = {job.mark: job.pk for job in TestJob.objects.bulk_create(jobs) if job.pk}

    def _many(self) -> None:
        TestJob.objects.enqueue_many(
            [_without_delay(job) for job in self.batch], delay=self.batch[0]["delay"]
        )


def _without_delay(job: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name != "delay"}
