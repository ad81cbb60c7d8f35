"""One job's life, from the buffer to its outcome."""

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connections
from django.db.utils import Error

from .. import current, events
from ..current import running
from ..guard import capture, exit_if_it_dies
from ..lifecycle import holder
from ..lifecycle.results import NONE, Results, results_of, settle
from .buffer import KILL_WITHIN, Buffer, Item
from .exactly_once import WorkerExactlyOnceRun, is_apart
from .finisher import Finisher
from .missing_targets import explained
from .outcomes import Outcome
from .session import drop_dead_connections, reset_connections, watch_connections
from .shared_memory import SEPARATOR, SharedMemory
from .statement_watchdog import STATEMENT_WATCHDOG

logger = logging.getLogger("django_dbqueue")

LOOK_AGAIN = 1.0  # seconds between looks whether a thread's connections are still there


class Runner(threading.Thread):
    """A thread that runs jobs; user code runs here and nowhere else."""

    def __init__(
        self,
        number: int,
        buffer: Buffer,
        finisher: Finisher,
        shared: SharedMemory,
        worker_timeout: float,
        stop: threading.Event,
        woken: Callable[[], None],
    ) -> None:
        super().__init__(name=f"runner-{number}", daemon=True)
        self.number = number
        self.buffer = buffer
        self.finisher = finisher
        self.shared = shared
        self.slot = shared.slot(number)
        self.item: Item | None = None
        # How long the one job that runs now may run.
        self._seconds = 0.0
        self._restart_clock = self._restart
        self.worker_timeout = worker_timeout
        self.stop = stop
        self.woken = woken
        self._looked_at = time.monotonic()
        # is_alive() stays true for a moment after the last wake-up.
        self.has_ended = False

    def run(self) -> None:
        exit_if_it_dies(self._run)
        self.has_ended = True
        self.woken()

    def _run(self) -> None:
        watch_connections()
        try:
            while (item := self._next()) is not None:
                self.item = item
                self.take(item)
        finally:
            connections.close_all()

    def _next(self) -> Item | None:
        if self.finisher.is_full:
            self.finisher.wait_for_room()
        return self.buffer.get()

    def take(self, item: Item) -> None:
        now = time.monotonic()
        if now - self._looked_at > LOOK_AGAIN:
            drop_dead_connections()
            # That may have taken long, and others may have taken the job for abandoned.
            now = self._looked_at = time.monotonic()
        if self._may_start(item, now):
            self.life(item)
        elif item.jobs:
            self.buffer.unstarted.put(item)
        # In this order: what is under way and in nobody's hand is between two.
        self.item = None
        self.buffer.done[self.number] += 1
        if len(self.buffer) <= self.buffer.refill_at:
            self.woken()

    def _may_start(self, item: Item, now: float) -> bool:
        """Not while the beats are missing, nor of a locked table; and what waited too long must
        still be ours."""
        if self.finisher.locked and item.table.place in self.finisher.locked:
            return False
        alias = item.table.connection.alias
        while now - self.shared.beaten_at(alias) > self.worker_timeout:
            logger.warning("no beat for %g s: starting nothing until it works", self.worker_timeout)
            if self.stop.wait(0.5):
                return False
            now = time.monotonic()
        return not item.is_late(self.shared.epoch(alias), now) or self._still_ours(item)

    def _still_ours(self, item: Item) -> bool:
        """Touch a job that waited long, and drop what another owner has by now."""
        keys = [job.claim_key for job in item.jobs]
        try:
            table = item.table.on_this_thread()
            with table.connection.execute_wrapper(STATEMENT_WATCHDOG.execute):
                touched = holder.touch(table, item.owner, keys, allowance=KILL_WITHIN)
        except Error as error:
            logger.warning("not started, since its claim could not be renewed: %s", error)
            drop_dead_connections()
            return False
        kept = set(touched.written)
        item.jobs = [job for job in item.jobs if job.claim_key in kept]
        return bool(item.jobs)

    def life(self, item: Item) -> None:
        """Run the job and hand its outcome on."""
        with running(item.jobs[0]):
            self._life(item)

    def _life(self, item: Item) -> None:
        expired = [job for job in item.jobs if job.has_expired and not is_apart(item.table)]
        if expired and not self._leave_out(item, expired):
            return
        started = self._start_clock(item)
        for job in item.jobs:
            events.started(item.table, job)
        once: WorkerExactlyOnceRun | None = None
        results: dict[Any, Results] = {}
        with capture() as run:
            if item.table.policy.exactly_once and not item.table.takes_batches:
                table = item.table.on_this_thread()
                once = WorkerExactlyOnceRun(table, item.jobs[0], partial(_run, item))
                once.run()
            else:
                _run(item)
                # What a column cannot hold is the run's own failure, not its finisher's.
                results = _results(item)
        seconds = time.monotonic() - started
        self.slot.finish()
        reset_connections(failed=run.error is not None)
        error = run.error and explained(item.jobs, run.error)
        if once is not None:
            once.hand_on(self.finisher, error, seconds)
        else:
            self._hand_on(item, error, seconds, results)

    def _leave_out(self, item: Item, expired: list[Any]) -> bool:
        """Whether any is left to run."""
        for job in expired:
            self.finisher.put(Outcome(item.table, item.owner, job, expired=True))
        item.jobs = [job for job in item.jobs if not job.has_expired]
        return bool(item.jobs)

    def _start_clock(self, item: Item) -> float:
        """Tell the supervisor what runs and until when; the start. A batch has the shortest of its
        times, and a touch, which speaks for one row, does not make it longer."""
        jobs, table = item.jobs, item.table
        usual, name = table.policy.time_to_run, f"{table.connection.alias}{SEPARATOR}{table.label}"
        if len(jobs) == 1:
            [job] = jobs
            label, seconds = f"{name}{SEPARATOR}{job.claim_key}", job.time_to_run or usual
            self._seconds = seconds
            job.restart_clock = self._restart_clock
        else:
            label = SEPARATOR.join([name, *[str(job.claim_key) for job in jobs]])
            seconds = min([job.time_to_run or usual for job in jobs])
        for job in jobs:
            job.grace = KILL_WITHIN
        now = time.monotonic()
        self.slot.start(label.encode(), now, now + seconds, len(jobs))
        return now

    def _restart(self) -> None:
        self.slot.extend(time.monotonic() + self._seconds)

    def _hand_on(
        self, item: Item, error: Exception | None, seconds: float, results: dict[Any, Results]
    ) -> None:
        for job in item.jobs:
            if not job.holds_claim():
                continue  # its own code has finished it
            outcome = Outcome(item.table, item.owner, job, error, seconds)
            outcome.results = results.get(job.claim_key, NONE)
            outcome.ends_claim = item.ends_claim
            if item.table.policy.finish == "each":
                self.finisher.write_now(outcome)
            else:
                self.finisher.put(outcome)


def _results(item: Item) -> dict[Any, Results]:
    if not item.table.policy.results:
        return {}
    table = item.table.on_this_thread()
    return {job.claim_key: results_of(table, job) for job in item.jobs}


def _run(item: Item) -> None:
    if item.table.takes_batches and item.table.policy.exactly_once:
        raise TypeError("run_batch() is not for tables with exactly_once: define run()")
    try:
        if item.table.takes_batches:
            settle(item.table.model.run_batch(list(item.jobs)))
        else:
            settle(item.jobs[0].run())
    finally:
        if current.forked_by:
            # It would go on as a second worker, with the claims and connections of the first.
            logger.error("%s has forked and ended twice: the copy ends here", item.jobs[0])
            os._exit(0)
