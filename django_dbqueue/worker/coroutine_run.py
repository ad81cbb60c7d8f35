"""One job whose ``run`` is a coroutine, from its start on the event loop to its outcome."""

import asyncio
import time
from contextvars import Context

from django.core.exceptions import ObjectDoesNotExist

from .. import events
from ..current import run_as_coroutine
from ..exceptions import TimeToRunExceeded
from ..guard import error_of
from .buffer import KILL_WITHIN, Item, Outcome
from .event_loop import JobLoop, LifeTask, UnderWay, under_way
from .shared_memory import SEPARATOR, CoroutineSlot

CANCEL_WITHIN = 2.0  # seconds for a job that is cancelled to end; then its child is killed


class CoroutineRun:
    """``begin`` and what follows it are called in the thread of the loop."""

    def __init__(self, item: Item, slot: CoroutineSlot) -> None:
        self.item = item
        [self.job] = item.jobs
        self.slot = slot
        self.under_way = UnderWay(self.job, slot)
        self.seconds = self.job.time_to_run or item.table.policy.time_to_run
        self.started_at = self.deadline = 0.0
        # Its own code, which alone can be cancelled, and what follows it, where that takes time.
        self.code: asyncio.Task[None] | None = None
        self.rest: asyncio.Task[None] | None = None
        self.cancelled_for: Exception | None = None
        # Of the job alone: what has begun in it has to end in it.
        self.context: Context
        self.tell_of_end: events.End
        self._alarm: asyncio.TimerHandle

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

    def begin(self, loop: JobLoop, context: Context) -> "asyncio.Task[None]":
        """Its code, as a task; called in this context, which is its own."""
        self.context = context
        under_way.set(self.under_way)
        run_as_coroutine(self.job)
        self.tell_of_end = events.running(self.item.table, [self.job])
        self._alarm = loop.call_at(self.deadline, self._end_in_time)
        self.code = LifeTask(self._run(), loop=loop, owner=self.under_way, context=context)
        return self.code

    async def _run(self) -> None:
        await self.job.run()

    def _end_in_time(self) -> None:
        if time.monotonic() < self.deadline:  # a touch has moved it
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self.deadline, self._end_in_time)
        else:
            words = f"its time to run of {self.seconds:g} s was over and it was cancelled"
            self.cancel(TimeToRunExceeded(words))

    def error(self) -> Exception | None:
        """How its code has failed."""
        assert self.code is not None, "it has begun"
        self._alarm.cancel()
        error = error_of(asyncio.Task.result, self.code)
        if self.cancelled_for is None:
            return error
        # Whatever it made of that: it was not let to its end.
        return self.cancelled_for.with_traceback(None if error is None else error.__traceback__)

    def ends_at_once(self, error: Exception | None) -> bool:
        """Whether its end is to wait for nothing that it has left, nor for a database."""
        policy, left = self.item.table.policy, self.under_way
        takes_time = policy.results or policy.finish == "each" or left.tasks or left.calls
        is_gone = isinstance(error, ObjectDoesNotExist)
        return not (takes_time or is_gone) and self.job.holds_claim()

    def outcome(self, error: Exception | None) -> Outcome:
        """Its clock stops: the slot may be another job's soon."""
        seconds = time.monotonic() - self.started_at
        self.slot.finish()
        if self.item.turn is not None:
            self.item.turn.end()
        self.job.restart_clock = None
        item = self.item
        return Outcome(item.table, item.owner, self.job, error, seconds, item.ends_claim)
