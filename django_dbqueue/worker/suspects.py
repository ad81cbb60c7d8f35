"""The claimer of a sacrificial child, which runs what may have killed a worker."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..lifecycle.suspects import take_over
from ..lifecycle.table import Table
from .buffer import ALLOWANCE, Buffer, Item
from .claimer import Claimer
from .options import Options
from .reconcile import InHand
from .shared_memory import Role, SharedMemory
from .wakeup import Wakeup

LOOK = 0.1  # seconds between looks for another suspect
LINGER = 1.0  # seconds without any, then the child ends
WRITING = 0.05  # seconds until the last outcome may be written


class SuspectClaimer(Claimer):
    """Takes over what the ordinary children of its worker have claimed, and must not run."""

    def __init__(
        self,
        options: Options,
        owner_prefix: str,
        buffer: Buffer,
        shared: SharedMemory,
        wakeup: Wakeup,
        share: int | None,
        unwritten: Callable[[], int],
        in_hand: InHand,
        *,
        alone: bool,
    ) -> None:
        super().__init__(options, owner_prefix, buffer, shared, wakeup, share, unwritten, in_hand)
        self.alone = alone
        self.worker = owner_prefix.partition(".")[0]
        self._tables = {(one.model, one.using) for one in options.served}

    def _claim(self) -> float:
        is_busy = bool(self.buffer.under_way or self.unwritten())
        if self.alone and is_busy:
            return WRITING
        for model, using in self._tables:
            table = self.options.table(model, using)
            if table.place not in self.scheduler.locked and self._take_over(table):
                self._empty_since = float("inf")
                return 0.0
        if is_busy:
            self._empty_since = float("inf")
        elif self._empty_since == float("inf"):
            self._empty_since = time.monotonic()
        return LOOK

    def _take_over(self, table: Table) -> list[Any]:
        self._adapt(table)
        owner = f"{self.owner_prefix}{next(self._claims)}"
        claimed_at, epoch = time.monotonic(), self.shared.epoch(table.connection.alias)
        self.unsure.append((table, owner))
        self.reconciler.claimed(table)
        jobs = take_over(table, self.worker, owner, self.batch, self.alone, ALLOWANCE)
        self.unsure.pop()
        self._was_full = len(jobs) == self.batch
        self._put([Item(table, owner, [job], claimed_at, epoch) for job in jobs])
        return jobs


def options_of(options: Options, role: Role) -> Options:
    """What a sacrificial child is told."""
    is_alone = role is Role.ALONE
    threads = 1 if is_alone else options.threads
    # It fetches no more than it can run, until they are seen to be quick: others may be free.
    told = replace(options, processes=1, threads=threads, batch_size=threads)
    told = replace(told, batch_grows=not is_alone, max_jobs=None)
    return replace(told, stop_when_empty=LINGER)


def stand_apart() -> None:
    """A job that kills its process group kills this child alone, and the kernel that runs out of
    memory takes it first."""
    os.setpgid(0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # the system has no such thing, or does not let us
