"""A queue table whose jobs are coroutines, as those that wait for networks are."""

import asyncio
import ctypes
import gc
import os
import signal
import sys
import time
from contextvars import ContextVar
from pathlib import Path

from asgiref.sync import sync_to_async
from django.db import connection, models, transaction

from django_dbqueue.backoff import Fixed
from django_dbqueue.current import current_job
from django_dbqueue.models import Job

from .faults import Logged, wait_for_gate
from .orphans import Person, loose

seen: ContextVar[int] = ContextVar("seen", default=0)


class Fetched(Logged):
    """Notes its start, waits for ``seconds``, does what ``action`` says, and notes its end."""

    sitter = loose(models.ForeignKey, Person, db_constraint=False)

    class Meta(Logged.Meta):
        pass

    class Policy:
        time_to_run = 60
        max_attempts = 3
        backoff = Fixed(3600)

    async def run(self) -> None:  # type: ignore[override]
        self.note("start")
        await asyncio.sleep(self.seconds)
        if self.action:
            await getattr(self, f"do_{self.action}")()
        self.note("end")

    async def do_fork(self) -> None:
        if pid := os.fork():
            os.waitpid(pid, 0)

    async def do_fail(self) -> None:
        raise LookupError("nothing was fetched")

    async def do_look_at_sitter(self) -> None:
        await Person.objects.aget(pk=self.sitter_id or 0)

    async def do_look_at_python(self) -> None:
        self.text = f"{sys.getswitchinterval():g} {gc.get_threshold()[0]}"
        await self.asave()

    async def do_exit(self) -> None:
        raise SystemExit(7)

    async def do_exit_in_a_task(self) -> None:
        await asyncio.gather(self.do_exit())

    async def do_cancel_itself(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def do_segfault(self) -> None:
        ctypes.string_at(0)

    async def do_segfault_in_a_thread(self) -> None:
        """When its turn on the loop has long been over."""

        def crash() -> None:
            time.sleep(0.3)
            ctypes.string_at(0)

        await asyncio.to_thread(crash)

    async def do_kill_later(self) -> None:
        """By another process, while no coroutine has its turn."""
        command = f"sleep 0.5; kill -9 {os.getpid()}"
        await (await asyncio.create_subprocess_shell(command, start_new_session=True)).wait()

    async def do_wait_at_gate(self) -> None:  # type: ignore[override]
        """Until the test opens it."""
        while not Path(f"{self.log}.gate").exists():
            await asyncio.sleep(0.05)

    async def do_block(self) -> None:
        time.sleep(float(self.text))  # that is the fault

    async def do_deafly_wait(self) -> None:
        """Whoever cancels it."""
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.note("cancelled")

    async def do_clean_up(self) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            self.note("cleaned")

    async def do_touch(self) -> None:
        for _ in range(6):
            await asyncio.sleep(1)
            await sync_to_async(self.touch)()

    async def do_wait_in_a_thread(self) -> None:
        await asyncio.to_thread(wait_for_gate, self.log)

    async def do_leave_a_task(self) -> None:
        """That would note something else, later."""
        self.left = asyncio.create_task(self.do_clean_up())
        await asyncio.sleep(0)

    async def do_begin_late(self) -> None:
        """Something, once it has ended."""

        def begin(_: object) -> None:
            self.left = asyncio.create_task(self.do_clean_up())

        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(begin)

    async def do_cancel_all(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()

    async def do_look(self) -> None:
        """Where another job of the same loop would show up."""
        before = seen.get()
        seen.set(self.pk)
        await asyncio.sleep(0.1)
        both = current_job(), await sync_to_async(current_job)()
        of_task = await asyncio.create_task(asyncio.to_thread(current_job))
        keys = [job.pk for job in (*both, of_task)]
        self.text = f"{before} {seen.get() - self.pk} {set(keys) == {self.pk}}"
        await self.asave()

    async def do_orm(self) -> None:
        again = await Fetched.objects.aget(pk=self.pk)
        self.text = f"{again.text}, seen and saved"
        await self.asave()

    async def do_leave_open(self) -> None:
        """A transaction, which is nobody else's."""

        def leave_open() -> None:
            transaction.atomic().__enter__()
            Fetched.objects.filter(pk=self.pk).update(text="left open")

        await sync_to_async(leave_open)()

    async def do_look_for_open(self) -> None:
        def is_open() -> bool:
            return connection.in_atomic_block

        self.text = str(await sync_to_async(is_open)())
        await self.asave()

    async def do_complete(self) -> None:
        await sync_to_async(self.complete)()

    async def do_release(self) -> None:
        await sync_to_async(self.release)(delay=3600)

    async def do_kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class FetchedEach(Job):
    """Commits every outcome at once, with a result; waits at a gate where ``text`` is its path."""

    text = models.TextField(blank=True)
    answer = models.JSONField(null=True)

    class Meta(Job.Meta):
        pass

    class Policy:
        finish = "each"
        max_attempts = 1
        results = ("answer",)

    async def run(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        while self.text.endswith(".gate") and not Path(self.text).exists():
            await asyncio.sleep(0.02)
        self.answer = object() if self.text == "unfit" else {"text": self.text}
