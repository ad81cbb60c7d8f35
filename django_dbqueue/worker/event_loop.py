"""The event loop of a child: it tells whose code it runs, and has threads for what blocks.

Should the process die, the job whose turn it is may have killed it, and those that have something
done in a thread, but none that merely waits.
"""

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVarTuple

from django.db import connections

from .. import current
from .connections import CHECK_SECONDS, drop_dead_connections, reset_connections, watch_connections
from .shared_memory import HELD_UP_SECONDS, CoroutineSlot, SharedMemory

logger = logging.getLogger("django_dbqueue")

Ts = TypeVarTuple("Ts")

LOOK_SECONDS = 0.25  # between looks for a job that holds all others up


@dataclass(eq=False, slots=True)
class UnderWay:
    """What a job on the loop has begun: further tasks, and calls in threads."""

    job: Any
    slot: CoroutineSlot
    tasks: set["asyncio.Task[Any]"] = field(default_factory=set)
    calls: set["Future[Any]"] = field(default_factory=set)
    in_threads: int = 0
    is_known_to_block: bool = False

    async def end(self) -> None:
        """Cancel the tasks that it has left, and wait for them and for its threads."""
        for task in list(self.tasks):
            task.cancel()
        while left := [*self.tasks, *map(asyncio.wrap_future, list(self.calls))]:
            done, _ = await asyncio.wait(left)
            for one in done:
                # Else Python complains of an error that nobody has looked at.
                _ = one.cancelled() or one.exception()


under_way: ContextVar[UnderWay | None] = ContextVar("dbqueue_under_way", default=None)


class JobLoop(asyncio.SelectorEventLoop):
    """An event loop that notes whose turn it is."""

    def __init__(self, shared: SharedMemory) -> None:
        super().__init__()
        self.shared = shared
        self.turn: tuple[UnderWay, float] | None = None
        self.set_task_factory(_make_task)  # type: ignore[arg-type]

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(self._take_turn, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._take_turn, callback, *args, context=context)

    def _take_turn(self, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        mine = under_way.get()
        if mine is None:
            callback(*args)
            return
        now = time.monotonic()
        self.turn = mine, now
        self.shared.begin_turn(mine.slot, now)
        try:
            callback(*args)
        except (SystemExit, KeyboardInterrupt):
            pass  # its task has failed with it; to end the loop is not for a job
        finally:
            _end_if_forked(mine.job)
            self.shared.end_turn()
            self.turn = None

    def watch(self, thread: int, is_over: threading.Event) -> None:
        """For another thread: find what holds the loop up, which runs in ``thread``."""
        while not is_over.wait(LOOK_SECONDS):
            if (turn := self.turn) is None:
                continue
            mine, since = turn
            seconds = time.monotonic() - since
            if seconds > HELD_UP_SECONDS and not mine.is_known_to_block:
                mine.is_known_to_block = True
                message = "%s %s has held up all coroutines for %.1f s, in\n%s"
                label, stack = mine.job._meta.label_lower, _stack_of_the_job(thread)
                logger.warning(message, label, mine.job.claim_key, seconds, stack)


def _stack_of_the_job(thread: int) -> str:
    """What the loop's thread does, from where the loop has called the job's code."""
    stack = traceback.extract_stack(sys._current_frames().get(thread))
    ours = [n for n, frame in enumerate(stack) if frame.name == JobLoop._take_turn.__name__]
    return "".join(traceback.format_list(stack[ours[0] + 1 if ours else 0 :]))


class LifeTask(asyncio.Task[None]):
    """What a job's life, or all of them, depend on: no other job's code can cancel it."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, None],
        *,
        loop: JobLoop,
        owner: UnderWay | None = None,
        **given: Any,
    ) -> None:
        super().__init__(coroutine, loop=loop, **given)
        self._job_loop, self._owner = loop, owner

    def cancel(self, msg: Any = None) -> bool:
        turn = self._job_loop.turn
        is_others = turn is not None and turn[0] is not self._owner
        return not is_others and super().cancel(msg)


def _make_task(
    loop: JobLoop, coroutine: Coroutine[Any, Any, Any], **given: Any
) -> "asyncio.Task[Any]":
    """A task that is known to belong to the job that makes it."""
    mine = under_way.get()
    if mine is None:
        return LifeTask(coroutine, loop=loop, **given)
    task = asyncio.Task(coroutine, loop=loop, **given)
    mine.tasks.add(task)
    task.add_done_callback(mine.tasks.discard)
    return task


class JobThreads(ThreadPoolExecutor):
    """Threads for what coroutines call; what a call leaves on a connection reaches no other."""

    def __init__(self, count: int, name: str, *, keeps_connections: bool = True) -> None:
        super().__init__(count, thread_name_prefix=name, initializer=watch_connections)
        self._keeps_connections = keeps_connections
        self._counting = threading.Lock()
        self._checked = threading.local()

    def submit(self, call: Callable[..., Any], /, *args: Any, **given: Any) -> "Future[Any]":
        mine = under_way.get()
        future = super().submit(self._call, mine, call, *args, **given)
        if mine is not None:
            mine.calls.add(future)
            future.add_done_callback(mine.calls.discard)
        return future

    def _call(
        self, mine: UnderWay | None, call: Callable[..., Any], /, *args: Any, **given: Any
    ) -> Any:
        now = time.monotonic()
        if now - getattr(self._checked, "at", now) > CHECK_SECONDS:
            drop_dead_connections()
        self._checked.at = now
        self._note(mine, 1)
        has_failed = True
        try:
            answer = call(*args, **given)
            has_failed = False
            return answer
        finally:
            _end_if_forked(mine.job if mine else None)
            if self._keeps_connections:
                reset_connections(failed=has_failed)
            else:
                connections.close_all()
            self._note(mine, -1)

    def _note(self, mine: UnderWay | None, more: int) -> None:
        if mine is not None:
            with self._counting:
                mine.in_threads += more
                mine.slot.note_threads(mine.in_threads)

    def close(self) -> None:
        """Wait for what runs, and close the connections of a single thread."""
        self.submit(connections.close_all).result()
        self.shutdown()


def _end_if_forked(job: Any) -> None:
    if current.forked_by:
        # It would go on as a second worker, with the claims and connections of the first.
        logger.error("%s has forked and ended twice: the copy ends here", job)
        os._exit(0)
