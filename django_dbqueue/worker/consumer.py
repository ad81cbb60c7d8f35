"""A child process: one claiming thread, runners, a finisher."""

import faulthandler
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from django.db import connections
from django.db.utils import Error

from .. import signals
from ..dialects import dialect_of
from ..guard import exit_if_it_dies, guarded
from ..models import Worker
from . import job_signals
from .assignment import Assignment
from .buffer import Buffer
from .claimer import CLAIM_BATCH_MAX, Claimer
from .claimers import Claimers
from .coroutines import CoroutineRunner
from .finisher import Finisher
from .options import Options
from .runner import RestingRunner, Runner, Taker
from .session import STATEMENT_WATCHDOG, Session
from .shared_memory import CANCEL, SACRIFICIAL, WRITE_STACKS, ExitStatus, Role, SharedMemory
from .signalling import forget_signals, wait_readable
from .stack_dumps import StackDump
from .suspects import SuspectClaimer, options_of, stand_apart
from .wakeup import Wakeup

logger = logging.getLogger("django_dbqueue")

OUTCOME_BATCH = 50  # written together, unless the claims are larger
ANSWER_SHARE = 0.75  # of worker_timeout: so long a server may leave a statement of ours unanswered
GARBAGE_THRESHOLD = 10_000  # new objects until the collector looks for cycles among them
SWITCH_SECONDS = 0.0005  # that one thread has Python's lock for while others want it


class Consumer:
    """Claims, runs and finishes until it is told to stop, or until nothing is ready."""

    def __init__(
        self,
        options: Options,
        stacks: StackDump,
        owner_prefix: str,
        shared: SharedMemory,
        share: int | None = None,
        role: Role = Role.ORDINARY,
    ) -> None:
        self.options = options
        self.stacks = stacks
        self.shared = shared
        self.is_condemned = False  # a job is over its time to run, and we are killed for it
        self.stop = threading.Event()
        self.wake_finisher = threading.Event()
        aliases = {served.using for served in options.served}
        self.one_writer = all(dialect_of(connections[alias]).one_writer for alias in aliases)
        batch = max(OUTCOME_BATCH, options.batch_size)
        self.finisher = Finisher(Session(aliases), batch, self._woken, max_unwritten(options))
        self.claimers = Claimers()
        self.runners: list[Taker] = []
        self.wakeup = Wakeup(aliases)
        for part in options.parts():
            self._add_claimer(part, owner_prefix, share, role)
        self.claimer = self.claimers.all[0]
        self.buffer = self.claimer.buffer
        self.answer_seconds = ANSWER_SHARE * options.worker_timeout
        self._ended, self._end = os.pipe()

    def _add_claimer(
        self, options: Options, owner_prefix: str, share: int | None, role: Role
    ) -> None:
        """One for the runner threads, or for the event loop, and these."""
        count = options.coroutines
        buffer = Buffer(CoroutineRunner.COUNTERS, count) if count else Buffer(options.threads)
        make = SuspectClaimer if role in SACRIFICIAL else Claimer
        claimer = make(
            *(options, owner_prefix, buffer, self.shared, self.wakeup, share),
            unwritten=lambda: self.claimers.under_way_of_others(claimer) + self.finisher.pending,
            in_hand=self.in_hand,
            role=role,
        )
        self.claimers.add(claimer)
        timeout = options.worker_timeout
        given = buffer, self.finisher, self.shared, timeout, self.stop, self._woken
        if count:
            self.runners.append(CoroutineRunner(count, *given))
        elif options.rest:
            rests = [(options.rest, number, *given) for number in range(options.threads)]
            self.runners += [RestingRunner(*one) for one in rests]
        else:
            self.runners += [Runner(number, *given) for number in range(options.threads)]

    def run(self, control: int) -> None:
        """Work until ``control``, the pipe from the supervisor, says something or closes."""
        loops = [self._claim] if self.one_writer else [self._finish, self._claim]
        threads = [
            threading.Thread(target=exit_if_it_dies, args=[loop], name=loop.__name__)
            for loop in loops
        ]
        # The system may have no more threads for us: what claims is last.
        threading.Thread(target=self._heed, args=[control], daemon=True).start()
        for thread in [*self.runners, *threads]:
            thread.start()
        while not wait_readable([self._ended], self.answer_seconds / 4):
            STATEMENT_WATCHDOG.end_waits(self.answer_seconds)
        self.stop.set()
        self._woken()
        for thread in threads:
            while thread.is_alive():
                STATEMENT_WATCHDOG.end_waits(self.answer_seconds)
                thread.join(self.answer_seconds / 4)

    def _heed(self, control: int) -> None:
        """Stop when our supervisor says so, and go on watching: it may be gone even after that."""
        while word := os.read(control, 1):
            if word == WRITE_STACKS:
                self.stacks.write()
                self.is_condemned = True
                self._woken()
            elif word == CANCEL:
                for runner in self.runners:
                    runner.cancel()
            else:
                os.write(self._end, b"!")
        # It is gone: be gone, too, when others take our jobs for abandoned. This needs no lock of
        # Python's, which a job may hold.
        silent = time.monotonic() - self.shared.missed_since
        left = max(0.1, self.options.worker_timeout - silent)
        faulthandler.dump_traceback_later(left, exit=True)
        logger.warning("the supervisor is gone: leaving within %.1f s", left)
        os.write(self._end, b"!")

    def close(self) -> None:
        """Where no process ends with it."""
        self.wakeup.close()
        os.close(self._ended)
        os.close(self._end)

    def _woken(self) -> None:
        # Both are mostly rung already; setting an event takes a lock.
        if not self.wakeup.is_notified:
            self.wakeup.notify()
        if not self.wake_finisher.is_set():
            self.wake_finisher.set()

    def _claim(self) -> None:
        """The claiming thread; where the database has one writer at a time anyway, it finishes,
        too."""
        try:
            while not self._is_over():
                self.claimers.sleep(guarded(self._turn))
            # Give back what has not started, and let every runner finish what it has in hand.
            try:
                self.claimers.give_back()
            except Error as error:
                logger.warning("could not give jobs back, the supervisor will: %s", error)
                self.claimers.withdraw()
            for runner in self.runners:
                runner.buffer.close(1)
            self.finisher.end_waiting()
            if self.one_writer:
                self._finish()
        finally:
            connections.close_all()

    def _finish(self) -> None:
        """The finisher's thread, where it has a connection of its own."""
        try:
            while not (self.stop.is_set() and all(runner.has_ended for runner in self.runners)):
                seconds = guarded(self.finish_turn)
                if seconds > 0:
                    self.wake_finisher.wait(seconds)
                self.wake_finisher.clear()
            # The supervisor ends us if the database stays away.
            while self.finisher.pending:
                seconds = self.finisher.flush()
                if self.finisher.pending:
                    self.wake_finisher.clear()
                    self.wake_finisher.wait(seconds)
            self.finisher.end()
        finally:
            connections.close_all()

    def _turn(self) -> float:
        wait = self.finish_turn() if self.one_writer else float("inf")
        return min(wait, self.claim_turn())

    def claim_turn(self) -> float:
        holds = self.finisher.backoff.failures > 0
        return self.claimers.turn(holds, self.finisher.locked_tables)

    def finish_turn(self) -> float:
        wait = self.finisher.turn(idle=not self.claimers.are_busy)
        self.shared.stuck = self.finisher.stuck
        if self.is_condemned and not self.shared.has_written:
            self.shared.has_written = self.finisher.write_all()
        return wait

    def in_hand(self) -> set[tuple[str, Any]] | None:
        """By owner and key what this child has claimed; None = a runner is just taking a job.

        For the claiming thread. What moves on meanwhile is seen where it came to.
        """
        items = self.claimers.in_hand(self.runners)
        if items is None:
            return None
        known = {(item.owner, job.claim_key) for item in items for job in item.jobs}
        return known | {(one.owner, one.job.claim_key) for one in self.finisher.unwritten()}

    def _is_over(self) -> bool:
        if self.stop.is_set():
            return True
        # Whether there is nothing left to do, as far as the claims tell.
        claimers, empty_seconds = self.claimers, self.options.stop_when_empty
        if claimers.are_waiting or self.finisher.pending or claimers.are_busy:
            return False
        if claimers.left == 0:
            exit_status = ExitStatus.ENOUGH
        elif empty_seconds is not None and claimers.empty_for() >= empty_seconds:
            exit_status = ExitStatus.EMPTY
        else:
            return False
        self.shared.exit_status = exit_status
        self.stop.set()
        os.write(self._end, b"!")
        return True


def max_unwritten(options: Options) -> int:
    """With so many outcomes unwritten nothing more starts, so that, with what the runners have in
    hand then, two batches at most have run and are not recorded."""
    claim_max = CLAIM_BATCH_MAX if options.batch_grows else 1
    batch = max(OUTCOME_BATCH, options.batch_size, claim_max)
    takes_batches = any(hasattr(served.model, "run_batch") for served in options.served)
    in_hand = batch - 1 if takes_batches else options.threads + options.coroutines
    return max(batch, 2 * batch - in_hand)


def run_child(
    options: Options,
    stacks: StackDump,
    owner_prefix: str,
    shared: SharedMemory,
    share: int | None,
    control: int,
    role: Role = Role.ORDINARY,
    assignment: Assignment | None = None,
) -> int:
    """What a forked child does; its exit code."""
    random.seed()
    options = options.only(shared.aliases)
    if role is not Role.ORDINARY:
        options = options_of(options, role)
        stand_apart()
    consumer = Consumer(options, stacks, owner_prefix, shared, share, role)
    if assignment is not None:
        assignment.times.record()
        consumer.claimers.assign(assignment)

    def stop(_number: int, _frame: FrameType | None) -> None:
        os.write(consumer._end, b"!")

    forget_signals()
    signal.signal(signal.SIGTERM, stop)
    job_signals.send(signals.worker_started, Worker)
    connections.close_all()
    tune_interpreter(len(consumer.runners))
    consumer.run(control)
    job_signals.send(signals.worker_stopped, Worker)
    shared.exit_status = shared.exit_status or ExitStatus.ASKED
    return 0


def tune_interpreter(runners: int) -> None:
    """For a child with so many threads that run jobs."""
    if runners == 1:
        # Else a job keeps what is claimed next, and what is to be recorded, waiting for 5 ms. With
        # several runners, jobs that only compute would be 5 % slower for it.
        sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
    # The collector would walk over all that Django has loaded, and over the claimed jobs again and
    # again. Garbage is never collected once it is frozen, and may hold a connection of the
    # supervisor's.
    gc.collect()
    gc.freeze()
    first, *others = gc.get_threshold()
    if 0 < first < GARBAGE_THRESHOLD:
        gc.set_threshold(GARBAGE_THRESHOLD, *others)
