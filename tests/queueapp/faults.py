"""Queue tables whose jobs misbehave, or look closely, for the proofs with real processes."""

import asyncio
import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from asgiref.sync import sync_to_async
from django.db import models

from django_dbqueue.backoff import Fixed
from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.models import Job

POLL = 0.01  # seconds between looks at a gate


def record(path: str, line: object) -> None:
    """Append a line for the tests to count, by one write that a kill cannot tear."""
    with Path(path).open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def wait_for_gate(path: str, name: str = "gate") -> None:
    """Until the test opens it."""
    while not Path(f"{path}.{name}").exists():
        time.sleep(POLL)


class Logged(Job):
    """Notes when it starts and when it ends, on a clock that all processes of a host share."""

    action = models.CharField(max_length=20, blank=True)
    seconds = models.FloatField(default=0)
    text = models.TextField(blank=True)
    log = models.CharField(max_length=500, blank=True)

    class Meta(Job.Meta):
        abstract = True

    def note(self, event: str) -> None:
        if self.log:
            place = f"{os.getpid()} {threading.get_native_id()}"
            record(self.log, f"{event} {self.pk} {time.monotonic()} {place} {self.crashes}")

    def run(self) -> None:
        self.note("start")
        self.act()
        self.note("end")

    def act(self) -> None:
        if self.seconds:
            time.sleep(self.seconds)
        if self.action:
            getattr(self, f"do_{self.action}")()

    def do_wait_at_gate(self) -> None:
        wait_for_gate(self.log)


class Deed(Logged):
    """Ends its process in one of many ways, or writes late."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        time_to_run = 60
        max_attempts = 3
        backoff = Fixed(0.2)

    def do_exit_0(self) -> None:
        os._exit(0)

    def do_exit_3(self) -> None:
        os._exit(3)

    def do_segfault(self) -> None:
        ctypes.string_at(0)

    def do_abort(self) -> None:
        os.abort()

    def do_kill(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def do_kill_group(self) -> None:
        os.killpg(0, signal.SIGKILL)

    def do_hog(self) -> None:
        """Use all the memory that there is, which Python itself notices."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), most))
        hoard = []
        while True:
            hoard.append(bytes(10_000))

    def do_fail(self) -> None:
        raise RuntimeError("it does not work")

    def do_query(self) -> None:
        Deed.objects.filter(pk=self.pk).exists()

    def do_complete_and_fail(self) -> None:
        self.complete()
        raise RuntimeError("too late to matter")

    # The first run waits to be frozen and then writes; a later one belongs to the heir.

    def is_late(self) -> bool:
        """Wait for the end of the freeze, or, as the heir, for leave to go on."""
        is_heir = bool(self.crashes or self.losses)
        wait_for_gate(self.log, "heir" if is_heir else "frozen")
        return not is_heir

    def write_late(self, name: str) -> None:
        try:
            getattr(self, name)()
        except ClaimLost:
            self.note(f"refused-{name}")
            raise

    def do_late_save(self) -> None:
        self.is_late()
        self.text += f"saved by {os.getpid()}"
        self.write_late("save")

    def do_late_touch(self) -> None:
        if self.is_late():
            self.write_late("touch")

    def do_late_complete(self) -> None:
        if self.is_late():
            self.write_late("complete")

    def do_late_release(self) -> None:
        if self.is_late():
            self.write_late("release")

    def do_late_bury(self) -> None:
        if self.is_late():
            self.write_late("bury")

    def do_late_return(self) -> None:
        self.is_late()

    def do_late_fail(self) -> None:
        if self.is_late():
            raise RuntimeError("it failed late")


class Once(Logged):
    """Has a single attempt."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        max_attempts = 1

    def do_fail(self) -> None:
        raise RuntimeError("it does not work")


class Prompt(Logged):
    """Commits every outcome at once, and may end its process."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        finish = "each"

    def do_segfault(self) -> None:
        ctypes.string_at(0)


class Awaited(Logged):
    """A coroutine."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        max_attempts = 1

    async def run(self) -> None:  # type: ignore[override]
        await sync_to_async(self.note)("start")
        await asyncio.sleep(self.seconds)
        if self.action:
            await getattr(self, f"do_{self.action}")()

    async def do_orm(self) -> None:
        again = await Awaited.objects.aget(pk=self.pk)
        self.text = f"{again.text}, seen and saved"
        await self.asave()

    async def do_fail(self) -> None:
        await asyncio.sleep(0)
        raise LookupError("nothing came of awaiting")

    async def do_cancel(self) -> None:
        raise asyncio.CancelledError("given up")

    async def do_complete(self) -> None:
        await sync_to_async(self.complete)()

    async def do_together(self) -> None:
        """Queries side by side, as a coroutine may have them."""
        await asyncio.gather(*(Awaited.objects.acount() for _ in range(5)))


class Gathered(Logged):
    """Batches as one coroutine."""

    class Meta(Logged.Meta):
        pass

    @classmethod
    async def run_batch(cls, jobs: list["Gathered"]) -> None:
        await asyncio.sleep(0)
        for job in jobs:
            await sync_to_async(job.note)("start")


class Yielding(Logged):
    """A generator by mistake: calling it runs nothing."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        max_attempts = 1

    def run(self) -> Iterator[None]:  # type: ignore[override]
        self.note("start")
        yield


class Marked(Logged):
    """Finishes some jobs of a batch by its own code, and leaves the rest; the first one's
    ``action`` then ends the batch."""

    class Meta(Logged.Meta):
        pass

    class Policy:
        max_attempts = 3
        backoff = Fixed(3600)

    @classmethod
    def run_batch(cls, jobs: list["Marked"]) -> None:
        for job in jobs:
            job.note("start")
            if job.text:
                getattr(job, f"do_{job.text}")()
        first = jobs[0]
        time.sleep(first.seconds)
        if first.action == "raise":
            raise RuntimeError("the batch does not work")
        if first.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

        if first.action == "pop":
            jobs.clear()

    def do_complete(self) -> None:
        self.complete()

    def do_fail(self) -> None:
        self.fail("this one does not work")

    def do_release(self) -> None:
        self.release(3600)

    def do_bury(self) -> None:
        self.bury("not this one")
