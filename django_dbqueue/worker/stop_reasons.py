"""Why a worker stops, and the exit code that says so."""

import os
import time
from dataclasses import dataclass

from .options import Options

STOPPED = 0
RELOADER = "_DBQUEUE_RELOADER"  # the pid of whoever started us with --reload
ENOUGH = 12  # a limit was reached: start it afresh


@dataclass(frozen=True)
class StopReason:
    """A reason in words, and the exit code."""

    reason: str
    code: int = STOPPED


REQUESTED = StopReason("requested in its row")


class Limits:
    """``--max-jobs``, ``--max-time`` and ``--max-memory`` of a worker, its children included."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._started = time.monotonic()
        self._reloader = int(os.environ.pop(RELOADER, 0))

    def reached(self, memory: int) -> StopReason | None:
        """The limit that is reached; the jobs are counted by the children."""
        longest, most = self.options.max_time, self.options.max_memory
        if longest is not None and time.monotonic() - self._started >= longest:
            return StopReason(f"--max-time: {longest:g} s are over", ENOUGH)
        if most is not None and memory > most * 1024 * 1024:
            used = memory / 1024 / 1024
            return StopReason(f"--max-memory: {used:.0f} MB used, {most} allowed", ENOUGH)
        if self._reloader and os.getppid() != self._reloader:
            return StopReason("the reloader is gone")
        return None

    def shares(self) -> list[int | None]:
        """How many jobs each child may run."""
        processes, most = self.options.processes, self.options.max_jobs
        if most is None:
            return [None] * processes
        parts = [most // processes + (n < most % processes) for n in range(processes)]
        return [part for part in parts if part]
