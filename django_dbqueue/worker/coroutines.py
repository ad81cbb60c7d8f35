"""Jobs whose ``run`` is a coroutine: many at once, on one event loop in a thread of its own."""

import asyncio
import logging
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.core.exceptions import ObjectDoesNotExist

from .. import events
from ..current import running
from ..guard import capture, exit_if_it_dies, exit_if_it_fails
from ..lifecycle.results import NONE, results_of
from .buffer import Buffer, GivenBack, Item, Outcome
from .connections import CHECK_SECONDS, drop_dead_connections, reset_connections
from .coroutine_run import CoroutineRun
from .event_loop import JobLoop, JobThreads, LifeTask
from .finisher import Finisher
from .own_end import tell_of_own_end
from .runner import Taker, explained
from .shared_memory import CoroutineSlot, SharedMemory

logger = logging.getLogger("django_dbqueue")

THREADS_MAX = 32  # for what coroutines have done in threads, next to that of Django's queries


class CoroutineRunner(Taker):
    """A thread that takes jobs and starts each as a coroutine, while fewer than ``count`` run."""

    # Of a buffer: what has not started is counted in this thread, the rest in the loop's.
    COUNTERS = 2

    def __init__(
        self, count: int, buffer: Buffer, finisher: Finisher, shared: SharedMemory, *given: Any
    ) -> None:
        super().__init__("coroutines", buffer, finisher, shared, *given)
        self.runs: dict[int, CoroutineRun] = {}
        # A slot is a place for a coroutine: those that were used, and how many were not yet.
        self._slots: SimpleQueue[CoroutineSlot] = SimpleQueue()
        self._unused = count
        self._slot = self._free_slot()
        # On their way to the loop.
        self._starting: deque[CoroutineRun] = deque()
        self._is_cancelling = False
        self._is_ready = threading.Event()
        self._is_over = threading.Event()
        # Of the loop's thread.
        self._context: Context
        self._loop: JobLoop
        self._thread: int
        self._last: asyncio.Event
        self._none_left: asyncio.Event
        self._outcomes: JobThreads

    def in_hand(self) -> list[Item]:
        return [*super().in_hand(), *[run.item for run in list(self.runs.values())]]

    def cancel(self) -> None:
        self._is_cancelling = True
        if self._is_ready.is_set():
            with suppress(RuntimeError):  # all have ended, and the loop with them
                self._loop.call_soon_threadsafe(self._cancel_all)

    def _run(self) -> None:
        loop = threading.Thread(target=exit_if_it_dies, args=[self._run_loop], name="event-loop")
        loop.daemon = True
        loop.start()
        self._is_ready.wait()
        given = self._thread, self._is_over
        threading.Thread(target=self._loop.watch, args=given, daemon=True).start()
        super()._run()
        self._loop.call_soon_threadsafe(self._last.set)
        loop.join()
        self._is_over.set()

    def take(self, item: Item) -> None:
        now = time.monotonic()
        if now - self._checked_at > CHECK_SECONDS:
            drop_dead_connections()
            now = self._checked_at = time.monotonic()
        may_start = self._may_start(item, now) and (item.turn is None or item.turn.begin())
        starts = may_start and not item.jobs[0].has_expired
        if starts:
            self._start(item)
        elif may_start:
            self.finisher.put(Outcome(item.table, item.owner, item.jobs[0], expired=True))
        elif item.jobs:
            self.buffer.unstarted.append(item)
        self.item = None
        self.buffer.done[0] += not starts
        if self.buffer.is_low:
            self.woken()
        if starts:
            self._slot = self._free_slot()

    def _start(self, item: Item) -> None:
        """Hand it to the loop."""
        run = CoroutineRun(item, self._slot)
        run.start_clock(self._thread)
        self.runs[run.slot.number] = run
        if events.started.receivers:
            with running(run.job):
                events.started(item.table, run.job)
            reset_connections()
        self._starting.append(run)
        # Else the loop has been woken for those before it, and takes all that it finds.
        if len(self._starting) == 1:
            self._loop.call_soon_threadsafe(self._launch_all)

    def _free_slot(self) -> CoroutineSlot:
        """Once there is one."""
        if self._unused and self._slots.empty():
            self._unused -= 1
            return self.shared.coroutine_slot(self._unused)
        return self._slots.get()

    # In the thread of the loop

    def _run_loop(self) -> None:
        runner = asyncio.Runner(loop_factory=lambda: JobLoop(self.shared))
        # No block: where this fails the process ends, before any job's code would be cancelled.
        runner.run(self._serve())
        runner.close()

    async def _serve(self) -> None:
        """Until nothing more is to come and all have ended."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JobLoop), "it is the runner's own"
        self._loop, self._thread = loop, threading.get_ident()
        self._last, self._none_left = asyncio.Event(), asyncio.Event()
        loop.set_default_executor(
            JobThreads(THREADS_MAX, "coroutine-calls", keeps_connections=False)
        )
        queries = JobThreads(1, "coroutine-queries")
        # Of those that are written at once: one that waits for a lock is to keep no query waiting.
        self._outcomes = JobThreads(1, "coroutine-outcomes")
        async with ThreadSensitiveContext() as sensitive:
            SyncToAsync.context_to_thread_executor[sensitive] = queries
            self._context = copy_context()
            self._is_ready.set()
            await self._last.wait()
            if self.runs:
                await self._none_left.wait()
            queries.close()
            self._outcomes.close()

    def _cancel_all(self) -> None:
        if self.runs:
            logger.info("cancelling %d coroutines, to be given back", len(self.runs))
        for run in list(self.runs.values()):
            run.cancel(GivenBack())

    def _launch_all(self) -> None:
        while self._starting:
            exit_if_it_fails(self._launch, self._starting.popleft())

    def _launch(self, run: CoroutineRun) -> None:
        if self._is_cancelling:
            self.finisher.put(run.outcome(GivenBack()))
            self._forget(run)
            return
        context = self._context.copy()
        code = context.run(run.begin, self._loop, context)
        code.add_done_callback(partial(self._code_has_ended, run), context=context)

    def _code_has_ended(self, run: CoroutineRun, _code: "asyncio.Task[None]") -> None:
        # After what the job itself wants to be called then, which may begin something.
        self._loop.call_soon(exit_if_it_fails, self._end, run, context=run.context)

    def _end(self, run: CoroutineRun) -> None:
        error = run.error()
        if run.ends_at_once(error):
            run.tell_of_end(error)
            self.finisher.put(run.outcome(error))
            self._forget(run)
        else:
            rest = self._end_slowly(run, error)
            run.rest = LifeTask(rest, loop=self._loop, context=run.context)
            run.rest.add_done_callback(_exit_if_it_died, context=self._context)

    async def _end_slowly(self, run: CoroutineRun, error: Exception | None) -> None:
        await run.under_way.end()
        table, job, results = run.item.table, run.job, NONE
        if isinstance(error, ObjectDoesNotExist):
            error = await sync_to_async(explained)([job], error)
        elif error is None and table.policy.results:
            # What a column cannot hold is the run's own failure, not its finisher's.
            with capture() as look:
                look_up = sync_to_async(lambda: results_of(table.on_this_thread(), job))
                results = await look_up()
            error = look.error
        run.tell_of_end(error)
        outcome = run.outcome(error)
        outcome.results = results
        if not job.holds_claim():
            await sync_to_async(tell_of_own_end)(table, job, outcome.seconds)
        elif table.policy.finish == "each":
            await self._write_now(outcome)
        else:
            self.finisher.put(outcome)
        self._forget(run)

    async def _write_now(self, outcome: Outcome) -> None:
        """Between its tries those of others are written."""
        loop, tries = asyncio.get_running_loop(), self.finisher.tries_to_write(outcome)
        another = partial(copy_context().run, next, tries, None)
        while (pause := await loop.run_in_executor(self._outcomes, another)) is not None:
            await asyncio.sleep(pause)

    def _forget(self, run: CoroutineRun) -> None:
        # In this order: what is under way and in nobody's hand is between two.
        del self.runs[run.slot.number]
        self.buffer.done[1] += 1
        self._slots.put(run.slot)
        if self._last.is_set() and not self.runs:
            self._none_left.set()


def _exit_if_it_died(task: "asyncio.Task[None]") -> None:
    exit_if_it_fails(task.result)
