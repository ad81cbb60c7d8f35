"""What happens before and instead of a supervisor: a wait, or a single job."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from django.db import connections, transaction
from django.db.utils import Error

from ..current import workers_own
from ..dialects import dialect_of
from ..exceptions import DBQueueError
from ..lifecycle import holder
from ..lifecycle.claim import claim
from ..lifecycle.limiter import base_of, limiter_of
from ..lifecycle.policy import policy_of
from ..lifecycle.ready_queues import ready_queues
from ..lifecycle.table import Table
from ..models import Queue, RateBucket
from ..models.queryset import new_owner
from ..models.queue import is_among
from .buffer import Buffer, Item
from .finisher import Finisher
from .health import HealthCheck
from .options import EXIT_LIMIT_REACHED, EXIT_STOPPED, Options
from .probe import Probe
from .runner import Runner
from .served import Served
from .session import STATEMENT_WATCHDOG, ReconnectBackoff, Session
from .shared_memory import SharedMemory
from .signalling import STOPPING, Signals, WakeupPipe, wait_readable
from .supervisor import Supervisor

logger = logging.getLogger("django_dbqueue")

MIGRATED_CHECK_SECONDS = 1.0  # between looks whether the tables are there
SILENCE_SECONDS_MAX = 30.0  # for which a database may leave a statement unanswered
SILENCE_LOOK_SECONDS = 0.5
AWAY = "database %s is away, its jobs wait until it answers; others are worked on meanwhile: %s"


class NotMigrated(DBQueueError):
    """Tables are missing, and it is worth waiting for them; its text says what to run."""


def say(text: str) -> None:
    if text:
        sys.stderr.write(text + "\n")


class Startup:
    """Prepares a worker and runs it; waits for databases that are away, until told to stop."""

    def __init__(self, options: Options, prepare: Callable[[Options], None]) -> None:
        """``prepare`` looks into the databases of the options that it is given, which all have
        answered; called again when one went away meanwhile."""
        self.options = options
        self.prepare = prepare
        self.signals = Signals(WakeupPipe())
        self.health_check = HealthCheck(options.health_file)
        self.probe = Probe(options)
        self.backoff = ReconnectBackoff("connecting")
        self._said = ""

    def run(self) -> int:
        """The exit code; ``PortTaken`` where ``--probe-port`` cannot be had."""
        # Before anything else: process 1 of a container gets no signal that it does not handle.
        self.signals.install()
        code = EXIT_STOPPED
        with closing(self.health_check), closing(self.probe):
            self.probe.open()
            if self._wait():
                with workers_own():
                    code = Supervisor(self.options, self.signals, probe=self.probe).run()
        self.signals.ignore()
        return code

    def run_once(self) -> int:
        """Run one job; without signals of its own: Ctrl-C fails the job that runs."""
        with closing(self.health_check):
            self._wait()
            return run_once(self.options)

    def run_here(self) -> int:
        """Run what is ready in this thread, one job after the other; the exit code. For a database
        that no other process sees: a child would run its jobs in a copy."""
        most, done = self.options.max_jobs, 0
        with closing(self.health_check):
            self._wait()
            while done != most and run_once(self.options):
                done += 1
        return EXIT_LIMIT_REACHED if done == most else EXIT_STOPPED

    def _wait(self) -> bool:
        """Whether it may start; False = it was told to stop."""
        with _waiting_for_no_silent(self.options.databases()):
            return self._wait_for_all()

    def _wait_for_all(self) -> bool:
        while not self.signals.stops and not self.options.has_lost_parent:
            self.health_check.turn()
            aliases = self.options.serves()
            away = {using: reason for using in aliases if (reason := _why_away(using))}
            there = aliases.keys() - away.keys()
            if away and not (there and self.options.apart):
                self._pause(next(iter(away.values())))
                continue
            try:
                self.prepare(self.options.only(there))
            except NotMigrated as missing:
                if str(missing) != self._said:
                    self._said = str(missing)
                    say(self._said)
                self.signals.wakeup.wait(MIGRATED_CHECK_SECONDS)
            except Error as error:
                dialects = [dialect_of(connections[using]) for using in self.options.databases()]
                if not any(dialect.error_kind(error) for dialect in dialects):
                    raise
                self._pause(error)
            else:
                for using, reason in away.items():
                    logger.warning(AWAY, using, reason)
                return True
        return False

    def _pause(self, error: Error) -> None:
        connections.close_all()
        self.signals.wakeup.wait(self.backoff.failed(error))


@contextmanager
def _waiting_for_no_silent(aliases: Iterable[str]) -> Iterator[None]:
    """Meanwhile what this thread asks a silent database is given up: after 30 s, and soon after a
    signal to stop. A handler is called when the statement is over, so it cannot end it itself."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    is_over = threading.Event()
    given = reader, is_over
    watch = threading.Thread(target=_end_silence, args=given, name="silence", daemon=True)

    def end() -> None:
        is_over.set()
        with suppress(BlockingIOError):  # it is awake
            os.write(writer, b"\0")
        watch.join()  # the supervisor forks

    with ExitStack() as stack:
        stack.callback(os.close, reader)
        stack.callback(os.close, writer)
        watch.start()
        stack.callback(end)
        if threading.current_thread() is threading.main_thread():
            before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
            stack.callback(signal.set_wakeup_fd, before)
        for alias in aliases:
            stack.enter_context(STATEMENT_WATCHDOG.watches(connections[alias]))
        yield


def _end_silence(signals: int, is_over: threading.Event) -> None:
    """``signals``: a pipe of their numbers."""
    longest = SILENCE_SECONDS_MAX
    while not is_over.is_set():
        if wait_readable([signals], SILENCE_LOOK_SECONDS):
            numbers = os.read(signals, 4096)
            if not set(STOPPING).isdisjoint(numbers):
                longest = SILENCE_LOOK_SECONDS
        STATEMENT_WATCHDOG.end_waits(longest)


def _why_away(using: str) -> Error | None:
    """What stands in the way of a transaction."""
    try:
        # On SQLite this waits for the write lock, which Django's checks would take for missing JSON
        # support.
        with transaction.atomic(using=using):
            pass
    except Error as error:
        return error
    return None


def run_once(options: Options) -> int:
    """Claim and run one job in this thread, on its connection; 1, or 0 when nothing is ready."""
    for served, queue in _ready_in_order(options):
        table, owner, has_moved = options.table(served.model, served.using), new_owner(), False
        while jobs := claim(table, queue, 1, owner) if _has_token(served, queue) else []:
            if not _is_moved(table, owner, jobs):
                break
            has_moved = True
        if jobs:
            _run(options, Item(table, owner, jobs, 0.0, 0))
            return 1
        if has_moved:
            return run_once(options)  # among the lanes, too, that there are by now
    return 0


def _is_moved(table: Table, owner: str, jobs: list[Any]) -> bool:
    """Whether these belong into the lane of a key; then they go there."""
    limiter = limiter_of(table.model)
    if limiter is None or table.policy.limiter:
        return False  # its app asks as the job runs
    strays = limiter.strays(jobs, table.connection.alias)
    for lane, moved in strays.items():
        holder.move(table, owner, [job.claim_key for job in moved], lane)
    return bool(strays)


def _run(options: Options, item: Item) -> None:
    stop, shared = threading.Event(), SharedMemory(1)
    finisher = Finisher(Session(set()), 1, lambda: None)
    given = Buffer(1), finisher, shared, options.worker_timeout, stop, lambda: None
    Runner(0, *given).life(item)
    pause = finisher.flush()
    while finisher.pending:
        stop.wait(pause)
        pause = finisher.flush()


def _has_token(served: Served, queue: str) -> bool:
    """Whether its rate lets a job of a queue start now; then the token is taken."""
    limiter = limiter_of(served.model)
    if limiter is None or policy_of(served.model).limiter:
        return True  # its app asks as the job runs
    buckets, rates = RateBucket.objects.db_manager(served.using), limiter.rates(queue)
    return not buckets.take(served.job_table, limiter.bucket_of(queue), rates, 1)


def _ready_in_order(options: Options) -> list[tuple[Served, str]]:
    """The queues with ready jobs, those first that come first."""
    found = []
    for served in options.served:
        table = options.table(served.model, served.using)
        control = Queue.objects.db_manager(served.using)
        paused = control.paused(served.job_table, force=options.force)
        names = {*ready_queues(table), *served.exact}
        unpaused = [name for name in sorted(names) if not is_among(paused, served.model, name)]
        found += [(served, name) for name in unpaused if served.takes(name)]
    order = options.queue_order
    place = order.draw().index
    return sorted(found, key=lambda one: place(order.rank(base_of(one[0].model, one[1]))))
