"""The claimer of a sacrificial child, which runs what may have killed a worker."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from django.db.utils import Error

from ..lifecycle.suspects import take_over
from ..lifecycle.table import Table
from .buffer import ALLOWANCE, Item
from .claimer import Claimer
from .options import Options
from .reconcile import ails_all
from .session import LOCKED_SECONDS
from .shared_memory import Role

logger = logging.getLogger("django_dbqueue")

LOOK_SECONDS = 0.1  # between looks for another suspect
LINGER_SECONDS = 1.0  # without any, then the child ends
RECORD_SECONDS = 0.05  # until the last outcome may be written


class SuspectClaimer(Claimer):
    """Takes over what the ordinary children of its worker have claimed, and must not run."""

    # Tables with trouble of their own, by place: until when.
    _left_out: Mapping[tuple[str, str], float] = MappingProxyType({})

    def claim(self) -> float:
        is_alone = self.role is Role.ALONE
        is_busy = bool(self.buffer.under_way or self.unwritten())
        if is_alone and is_busy:
            return RECORD_SECONDS
        for table in self._tables():
            try:
                has_some = self._take_over(table, is_alone)
            except Error as error:
                # What is locked, or gone, is no other table's business.
                if ails_all(table, error):
                    raise
                until = time.monotonic() + LOCKED_SECONDS
                self._left_out = {**self._left_out, table.place: until}
                logger.warning("%s is left out: %s", table.label, str(error).strip())
                continue
            if has_some:
                self.note_empty(is_empty=False)
                return 0.0
        self.note_empty(is_empty=not is_busy)
        return LOOK_SECONDS

    def _tables(self) -> Iterator[Table]:
        now = time.monotonic()
        served = dict.fromkeys((one.model, one.using) for one in self.options.served)
        for table in (self.options.table(model, using) for model, using in served):
            is_left_out = now < self._left_out.get(table.place, 0.0)
            if not is_left_out and table.place not in self.scheduler.locked_tables:
                yield table

    def _take_over(self, table: Table, is_alone: bool) -> bool:
        """Whether there were some."""
        self.adapt(table)
        worker, owner = self.owner_prefix.partition(".")[0], self.next_owner()
        claimed_at, epoch = time.monotonic(), self.shared.epoch(table.connection.alias)
        self.reconciler.claiming(table, owner)
        jobs = take_over(table, worker, owner, self.batch, is_alone, ALLOWANCE)
        self.reconciler.unsure.pop()
        self._was_full = len(jobs) == self.batch
        self.put([Item(table, owner, [job], claimed_at, epoch) for job in jobs])
        return bool(jobs)


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
