"""The claimer of a sacrificial child, which runs what may have killed a worker."""

import os
import time
from dataclasses import replace
from pathlib import Path

from ..lifecycle.suspects import take_over
from .buffer import ALLOWANCE, Item
from .claimer import Claimer
from .options import Options
from .shared_memory import Role

LOOK_SECONDS = 0.1  # between looks for another suspect
LINGER_SECONDS = 1.0  # without any, then the child ends
RECORD_SECONDS = 0.05  # until the last outcome may be written


class SuspectClaimer(Claimer):
    """Takes over what the ordinary children of its worker have claimed, and must not run."""

    def claim(self) -> float:
        is_alone = self.role is Role.ALONE
        is_busy = bool(self.buffer.under_way or self.unwritten())
        if is_alone and is_busy:
            return RECORD_SECONDS
        worker = self.owner_prefix.partition(".")[0]
        for model, using in {(served.model, served.using) for served in self.options.served}:
            table = self.options.table(model, using)
            if table.place in self.scheduler.locked_tables:
                continue
            self.adapt(table)
            owner = self.next_owner()
            claimed_at, epoch = time.monotonic(), self.shared.epoch(using)
            self.reconciler.claiming(table, owner)
            jobs = take_over(table, worker, owner, self.batch, is_alone, ALLOWANCE)
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
    coroutines = 0 if is_alone else options.coroutines
    told = replace(options, processes=1, threads=threads, coroutines=coroutines, max_jobs=None)
    told = replace(told, batch_size=threads)
    return replace(told, batch_grows=not is_alone, stop_when_empty=LINGER_SECONDS)


def stand_apart() -> None:
    """A job that kills its process group kills this child alone, and the kernel that runs out of
    memory takes it first."""
    os.setpgid(0, 0)
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass  # the system has no such thing, or does not let us
