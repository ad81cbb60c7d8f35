"""The claimer of a sacrificial child, which runs what may have killed a worker."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..lifecycle.suspects import take_over
from .buffer import ALLOWANCE, Buffer, Item
from .claimer import Claimer
from .options import Options
from .reconcile import InHand
from .shared_memory import Role, SharedMemory
from .wakeup import Wakeup

LOOK_SECONDS = 0.1  # between looks for another suspect
LINGER_SECONDS = 1.0  # without any, then the child ends
RECORD_SECONDS = 0.05  # until the last outcome may be written


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

    def claim(self) -> float:
        is_busy = bool(self.buffer.under_way or self.unwritten())
        if self.alone and is_busy:
            return RECORD_SECONDS
        for model, using in self._tables:
            table = self.options.table(model, using)
            if table.place in self.scheduler.locked_tables:
                continue
            self.adapt(table)
            owner = f"{self.owner_prefix}{next(self._claims)}"
            claimed_at, epoch = time.monotonic(), self.shared.epoch(using)
            self.reconciler.claiming(table, owner)
            jobs = take_over(table, self.worker, owner, self.batch, self.alone, ALLOWANCE)
            self.reconciler.unsure.pop()
            self._was_full = len(jobs) == self.batch
            self.put([Item(table, owner, [job], claimed_at, epoch) for job in jobs])
            if jobs:
                self.note_empty(is_empty=False)
                return 0.0
        self.note_empty(is_empty=not is_busy)
        return LOOK_SECONDS


def options_of(options: Options, role: Role) -> Options:
    """What a sacrificial child is told."""
    is_alone = role is Role.ALONE
    threads = 1 if is_alone else options.threads
    # It fetches no more than it can run, until they are seen to be quick: others may be free.
    told = replace(options, processes=1, threads=threads, batch_size=threads, max_jobs=None)
    return replace(told, batch_grows=not is_alone, stop_when_empty=LINGER_SECONDS)


def stand_apart() -> None:
    """A job that kills its process group kills this child alone, and the kernel that runs out of
    memory takes it first."""
    os.setpgid(0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # the system has no such thing, or does not let us
