"""One job's way, from the buffer to its outcome."""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import connections, router
from django.db.utils import Error

from .. import current, events
from ..current import here
from ..exceptions import Bury
from ..guard import capture, error_of, exit_if_it_dies
from ..lifecycle import holder
from ..lifecycle.results import NONE, Results, results_of, settle
from ..lifecycle.table import Table
from ..models.exactly_once import Expired
from .buffer import KILL_WITHIN, START_WITHIN, Buffer, Item, Outcome
from .connections import (
    CHECK_SECONDS,
    drop_dead_connections,
    reset_connections,
    watch_connections,
)
from .exactly_once import WorkerExactlyOnceRun, is_apart
from .finisher import Finisher
from .own_end import tell_of_own_end
from .session import STATEMENT_WATCHDOG, brief_locks
from .shared_memory import SEPARATOR, SharedMemory

logger = logging.getLogger("django_dbqueue")


class Taker(threading.Thread):
    """A thread that takes jobs from the buffer, and says whether they may start."""

    def __init__(
        self,
        name: str,
        buffer: Buffer,
        finisher: Finisher,
        shared: SharedMemory,
        worker_timeout: float,
        stop: threading.Event,
        woken: Callable[[], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.buffer = buffer
        self.finisher = finisher
        self.shared = shared
        self.item: Item | None = None
        self.worker_timeout = worker_timeout
        self.stop = stop
        self.woken = woken
        self._checked_at = time.monotonic()
        # is_alive() stays true for a moment after the last wake-up.
        self.has_ended = False

    def run(self) -> None:
        exit_if_it_dies(self._run)
        self.has_ended = True
        self.woken()

    def _run(self) -> None:
        watch_connections()
        try:
            while True:
                if self.finisher.is_full:
                    self.finisher.wait_for_room()
                item = self.buffer.get()
                if item is None:
                    return
                self.item = item
                self.take(item)
        finally:
            connections.close_all()

    def take(self, item: Item) -> None:
        raise NotImplementedError

    def in_hand(self) -> list[Item]:
        """What it has taken and not finished, for another thread."""
        return [] if (item := self.item) is None else [item]

    def cancel(self) -> None:
        """Stop what can be stopped, to be given back."""

    def _may_start(self, item: Item, now: float) -> bool:
        """Not while the beats are missing, nor of a locked table; and what waited so long that
        others may have taken it for abandoned must still be ours."""
        if self.finisher.locked_tables and item.table.place in self.finisher.locked_tables:
            return False
        alias = item.table.connection.alias
        beaten_at, epoch = self.shared.last_beat(alias)
        while now - beaten_at > self.worker_timeout:
            logger.warning("no beat for %g s: starting nothing until it works", self.worker_timeout)
            if self.stop.wait(0.5):
                return False
            now = time.monotonic()
            beaten_at, epoch = self.shared.last_beat(alias)
        if item.epoch == epoch and now <= item.claimed_at + START_WITHIN:
            return True
        keys = [job.claim_key for job in item.jobs]
        try:
            table = item.table.on_this_thread()
            with STATEMENT_WATCHDOG.watches(table.connection), brief_locks(table.connection):
                touched = holder.touch(table, item.owner, keys, allowance=KILL_WITHIN)
        except Error as error:
            logger.warning("not started, since its claim could not be renewed: %s", error)
            drop_dead_connections()
            return False
        # Another owner has the others by now.
        ours = set(touched.written)
        item.jobs = [job for job in item.jobs if job.claim_key in ours]
        return bool(item.jobs)


class Runner(Taker):
    """A thread that runs jobs."""

    def __init__(self, number: int, *given: Any) -> None:
        super().__init__(f"runner-{number}", *given)
        self.number = number
        self.slot = self.shared.slot(number)
        # How long the one job that runs now may run.
        self._seconds = 0.0
        # What the slot's labels begin with, of the table whose jobs it runs.
        self._table: Table | None = None
        self._label = ""

    def _run(self) -> None:
        self.slot.runs_in(threading.get_ident())
        super()._run()

    def take(self, item: Item) -> None:
        now = time.monotonic()
        if now - self._checked_at > CHECK_SECONDS:
            drop_dead_connections()
            # That may have taken long, and others may have taken the job for abandoned.
            now = self._checked_at = time.monotonic()
        turn = item.turn
        if self._may_start(item, now) and (turn is None or turn.begin()):
            self.life(item)
            if turn is not None:
                turn.end()
        elif item.jobs:
            self.buffer.unstarted.append(item)
        # In this order: what is under way and in nobody's hand is between two.
        self.item = None
        self.buffer.done[self.number] += 1
        if self.buffer.is_low:
            self.woken()

    def life(self, item: Item) -> None:
        """Run what has not expired, and hand its outcome on."""
        here.job = item.jobs[0]
        try:
            for job in item.jobs:
                if job.has_expired and not is_apart(item.table):
                    self.finisher.put(Outcome(item.table, item.owner, job, expired=True))
                    item.jobs = [one for one in item.jobs if one is not job]
            if item.jobs:
                self._run_and_hand_on(item)
        finally:
            here.job = None

    def _run_and_hand_on(self, item: Item) -> None:
        table, jobs = item.table, item.jobs
        started = self._start_clock(item)
        for job in jobs:
            job.grace = KILL_WITHIN
            for tell in events.started.receivers:
                tell(table, job)
        end = events.running(table, jobs) if events.running.receivers else None
        is_once = jobs[0].exactly_once or table.policy.exactly_once
        special = SpecialRun() if is_once or table.policy.results else None
        error = error_of(run_user_code if special is None else special.run, item)
        seconds = time.monotonic() - started
        self.slot.finish()
        reset_connections(failed=error is not None)
        if error is not None:
            error = explained(jobs, error)
        if end is not None:
            end(None if isinstance(error, Expired) else error)
        if special is not None and special.once is not None:
            special.once.hand_on(self.finisher, error, seconds)
            return
        hand_on = self.finisher.write_now if table.policy.finish == "each" else self.finisher.put
        for job in jobs:
            if not job.holds_claim():
                tell_of_own_end(table, job, seconds)
                continue
            outcome = Outcome(table, item.owner, job, error, seconds, item.ends_claim)
            if special is not None:
                outcome.results = special.results.get(job.claim_key, NONE)
            hand_on(outcome)

    def _start_clock(self, item: Item) -> float:
        """Tell the supervisor what runs and until when; the start. A batch has the shortest of its
        times, and a touch, which speaks for one row, does not make it longer."""
        jobs, table = item.jobs, item.table
        usual, count = table.policy.time_to_run, len(jobs)
        if table is not self._table:
            self._table = table
            self._label = f"{table.connection.alias}{SEPARATOR}{table.label}{SEPARATOR}"
        if count == 1:
            [job] = jobs
            label, seconds = f"{self._label}{job.claim_key}", job.time_to_run or usual
            self._seconds = seconds
            job.restart_clock = self._restart_clock
        else:
            label = self._label + SEPARATOR.join([str(job.claim_key) for job in jobs])
            seconds = min([job.time_to_run or usual for job in jobs])
        now = time.monotonic()
        self.slot.start(label.encode(), now, now + seconds, count)
        return now

    def _restart_clock(self) -> None:
        self.slot.extend(time.monotonic() + self._seconds)


class RestingRunner(Runner):
    """Pauses after each job, which it has in hand meanwhile: nothing is claimed for it."""

    def __init__(self, rest: float, *given: Any) -> None:
        super().__init__(*given)
        self.rest = rest

    def life(self, item: Item) -> None:
        super().life(item)
        self.stop.wait(self.rest)

    def _may_start(self, item: Item, now: float) -> bool:
        # Else who is woken from its rest would take one more job.
        return not self.stop.is_set() and super()._may_start(item, now)


class SpecialRun:
    """The run of jobs whose effects happen exactly once, or that leave results."""

    def __init__(self) -> None:
        self.once: WorkerExactlyOnceRun | None = None
        self.results: dict[Any, Results] = {}

    def run(self, item: Item) -> None:
        table, jobs = item.table, item.jobs
        is_once = jobs[0].exactly_once or table.policy.exactly_once
        if is_once and not table.takes_batches:
            work = partial(run_user_code, item)
            self.once = WorkerExactlyOnceRun(table.on_this_thread(), jobs[0], work)
            self.once.run()
        else:
            run_user_code(item)
            # What a column cannot hold is the run's own failure, not its finisher's.
            ours = table.on_this_thread()
            self.results = {job.claim_key: results_of(ours, job) for job in jobs}


def run_user_code(item: Item) -> None:
    if item.table.takes_batches and item.table.policy.exactly_once:
        raise TypeError("run_batch() is not for tables with exactly_once: define run()")
    try:
        if item.table.takes_batches:
            settle(item.table.model.run_batch(list(item.jobs)))
        else:
            if (answer := item.jobs[0].run()) is not None:
                settle(answer)
    finally:
        if current.forked_by:
            # It would go on as a second worker, with the claims and connections of the first.
            logger.error("%s has forked and ended twice: the copy ends here", item.jobs[0])
            os._exit(0)


def explained(jobs: Sequence[Any], error: Exception) -> Exception:
    """The error of a job, or ``Bury`` where it comes from a row that is gone and that the job's own
    foreign key names: another try would be in vain. A batch keeps its error: it speaks of no single
    job."""
    if not isinstance(error, ObjectDoesNotExist) or len(jobs) != 1:
        return error
    # What goes wrong here, as with a database that is away, says nothing of the row.
    with capture() as look:
        for field in jobs[0]._meta.fields:
            if not field.is_relation:
                continue
            target = field.remote_field.model
            if not isinstance(error, target.DoesNotExist):
                continue
            named = {to.attname: getattr(jobs[0], by.attname) for by, to in field.related_fields}
            # Not where it is read: a replica may not have heard of it yet.
            rows = target._base_manager.using(router.db_for_write(target, instance=jobs[0]))
            if None not in named.values() and not rows.filter(**named).exists():
                key = ", ".join(map(str, named.values()))
                name = target._meta.verbose_name_raw  # errors are stored in English
                raise Bury(f"{name} {key} does not exist any more") from error
    return look.error if isinstance(look.error, Bury) else error
