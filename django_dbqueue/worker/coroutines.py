"""Jobs whose ``run`` is a coroutine: many at once, on one event loop in a thread of its own."""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.core.exceptions import ObjectDoesNotExist

from .. import events
from ..current import running, running_coroutine
from ..exceptions import TimeToRunExceeded
from ..guard import THREAD_DIED, capture, exit_if_it_dies
from ..lifecycle.results import NONE, results_of
from .buffer import KILL_WITHIN, Buffer, GivenBack, Item, Outcome
from .connections import CHECK_SECONDS, drop_dead_connections, reset_connections
from .event_loop import JobLoop, JobThreads, UnderWay, under_way
from .finisher import Finisher
from .own_end import tell_of_own_end
from .runner import Taker, explained
from .shared_memory import SEPARATOR, CoroutineSlot, SharedMemory

logger = logging.getLogger("django_dbqueue")

CANCEL_WITHIN = 2.0  # seconds for a job that is cancelled to end; then its child is killed
THREADS_MAX = 32  # for what coroutines have done in threads, next to the one of Django's queries


class CoroutineRun:
    """One job on the loop, from its start to its outcome."""

    def __init__(self, item: Item, slot: CoroutineSlot) -> None:
        self.item = item
        [self.job] = item.jobs
        self.slot = slot
        self.under_way = UnderWay(self.job, slot)
        self.seconds = self.job.time_to_run or item.table.policy.time_to_run
        self.started_at = self.deadline = 0.0
        # All of it, and its own code, which alone can be cancelled.
        self.life: asyncio.Task[None] | None = None
        self.code: asyncio.Task[None] | None = None
        self.cancelled_for: Exception | None = None

    def start_clock(self, thread: int) -> None:
        """Tell the supervisor what runs and until when; what starts late is late already."""
        table, job = self.item.table, self.job
        label = f"{table.connection.alias}{SEPARATOR}{table.label}{SEPARATOR}{job.claim_key}"
        now = self.started_at = time.monotonic()
        self.deadline = now + self.seconds
        job.grace, job.restart_clock = KILL_WITHIN, self._restart_clock
        self.slot.note_threads(0)
        self.slot.start(label.encode(), now, self.deadline + CANCEL_WITHIN)
        self.slot.runs_in(thread)

    def _restart_clock(self) -> None:
        self.deadline = time.monotonic() + self.seconds
        self.slot.extend(self.deadline + CANCEL_WITHIN)

    def cancel(self, reason: Exception) -> None:
        if self.code is not None and self.cancelled_for is None and self.code.cancel():
            self.cancelled_for = reason

    async def run_its_code(self) -> Exception | None:
        """``run()`` and all that it leaves under way; how it failed."""
        end = events.running(self.item.table, [self.job])
        error = await self._run_to_its_end()
        end(error)
        return error

    async def _run_to_its_end(self) -> Exception | None:
        loop = asyncio.get_running_loop()
        alarm = loop.call_at(self.deadline, self._end_in_time)
        self.code = loop.create_task(self.job.run())
        await asyncio.wait([self.code])
        alarm.cancel()
        await self.under_way.end()
        with capture() as run:
            self.code.result()
        if self.cancelled_for is not None:
            # Whatever it made of that: it was not let to its end.
            trace = None if run.error is None else run.error.__traceback__
            return self.cancelled_for.with_traceback(trace)
        return run.error

    def _end_in_time(self) -> None:
        if time.monotonic() < self.deadline:  # a touch has moved it
            asyncio.get_running_loop().call_at(self.deadline, self._end_in_time)
        else:
            words = f"its time to run of {self.seconds:g} s was over and it was cancelled"
            self.cancel(TimeToRunExceeded(words))


class CoroutineRunner(Taker):
    """A thread that takes jobs and starts each as a coroutine, while fewer than ``count`` run."""

    # Of a buffer: what has not started is counted in this thread, the rest in the loop's.
    COUNTERS = 2

    def __init__(
        self, count: int, buffer: Buffer, finisher: Finisher, shared: SharedMemory, *given: Any
    ) -> None:
        super().__init__("coroutines", buffer, finisher, shared, *given)
        self.runs: dict[int, CoroutineRun] = {}
        self._unused = count
        self._slots: deque[CoroutineSlot] = deque()
        self._others = threading.Semaphore(count - 1)
        self._is_cancelling = False
        self._is_ready = threading.Event()
        self._is_over = threading.Event()
        # Of the loop's thread.
        self._context: Context
        self._loop: JobLoop
        self._thread: int
        self._last: asyncio.Event

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
            self._others.acquire()  # until there is a place for another one

    def _start(self, item: Item) -> None:
        """Hand it to the loop."""
        run = CoroutineRun(item, self._free_slot())
        run.start_clock(self._thread)
        self.runs[run.slot.number] = run
        with running(run.job):
            events.started(item.table, run.job)
        reset_connections()
        self._loop.call_soon_threadsafe(self._launch, run)

    def _free_slot(self) -> CoroutineSlot:
        if self._slots:
            return self._slots.pop()
        self._unused -= 1
        return self.shared.coroutine_slot(self._unused)

    # In the thread of the loop

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=lambda: JobLoop(self.shared)) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        """Until nothing more is to come and all have ended."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JobLoop), "it is the runner's own"
        self._loop, self._thread, self._last = loop, threading.get_ident(), asyncio.Event()
        loop.set_default_executor(
            JobThreads(THREADS_MAX, "coroutine-calls", keeps_connections=False)
        )
        queries = JobThreads(1, "coroutine-queries")
        async with ThreadSensitiveContext() as sensitive:
            SyncToAsync.context_to_thread_executor[sensitive] = queries
            self._context = copy_context()
            self._is_ready.set()
            await self._last.wait()
            while tasks := [run.life for run in self.runs.values() if run.life is not None]:
                await asyncio.wait(tasks)
            queries.close()

    def _cancel_all(self) -> None:
        if self.runs:
            logger.info("cancelling %d coroutines, to be given back", len(self.runs))
        for run in list(self.runs.values()):
            run.cancel(GivenBack())

    def _launch(self, run: CoroutineRun) -> None:
        context = self._context.copy()
        context.run(under_way.set, run.under_way)
        run.life = self._loop.create_task(self._life(run), context=context)
        run.life.add_done_callback(_exit_if_it_died)

    async def _life(self, run: CoroutineRun) -> None:
        with running_coroutine(run.job):
            error: Exception | None = GivenBack()
            if not self._is_cancelling:
                error = await run.run_its_code()
            outcome = await self._outcome(run, error)
            run.slot.finish()
            if run.item.turn is not None:
                run.item.turn.end()
            run.job.restart_clock = None  # the slot may be another job's soon
            if not run.job.holds_claim():
                tell = sync_to_async(tell_of_own_end)
                await tell(outcome.table, run.job, outcome.seconds)
            elif outcome.table.policy.finish == "each":
                await sync_to_async(self.finisher.write_now)(outcome)
            else:
                self.finisher.put(outcome)
        # In this order: what is under way and in nobody's hand is between two.
        del self.runs[run.slot.number]
        self._slots.append(run.slot)
        self.buffer.done[1] += 1
        self._others.release()

    async def _outcome(self, run: CoroutineRun, error: Exception | None) -> Outcome:
        item, job, results = run.item, run.job, NONE
        if isinstance(error, ObjectDoesNotExist):
            error = await sync_to_async(explained)([job], error)
        elif error is None and item.table.policy.results:
            # What a column cannot hold is the run's own failure, not its finisher's.
            with capture() as look:
                look_up = sync_to_async(lambda: results_of(item.table.on_this_thread(), job))
                results = await look_up()
            error = look.error
        seconds = time.monotonic() - run.started_at
        outcome = Outcome(item.table, item.owner, job, error, seconds, item.ends_claim)
        outcome.results = results
        return outcome


def _exit_if_it_died(task: "asyncio.Task[None]") -> None:
    """By our own fault: its job would count as running for ever."""
    if task.cancelled() or task.exception() is not None:
        task.print_stack()
        os._exit(THREAD_DIED)
