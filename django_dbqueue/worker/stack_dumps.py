"""Where a child was when it crashed or had to be stopped, written by its own fault handler.

A thread of the child's writes it while it holds Python's lock, so that no other thread moves on
meanwhile. If a job keeps that lock, the handler of a signal writes it without: where threads do
move on, that may read what is gone already, and crash.
"""

import faulthandler
import os
import re
import signal
import tempfile
import time
from collections.abc import Iterable

WRITE_SIGNAL = signal.SIGUSR1
DUMP_BYTES_MAX = 256 * 1024
QUIET_SECONDS = 0.25  # a busy host may stop a child in the middle of writing
BLOCK = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+).*\n((?:  .*\n?)*)", re.MULTILINE)


class StackDump:
    """A file that a supervisor and one child share."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child lives
        self._size = -1
        self._quiet_since = 0.0

    def record(self) -> None:
        """In the child: write all threads' stacks on a crash, and on a signal."""
        faulthandler.enable(self._file)
        faulthandler.register(WRITE_SIGNAL, self._file)

    def write(self) -> None:
        """In the child: write all threads' stacks now."""
        faulthandler.dump_traceback(self._file)

    def force_stacks(self, pid: int) -> None:
        """Have them written by a child that does not come round to it."""
        os.kill(pid, WRITE_SIGNAL)

    def has_answered(self, threads: Iterable[int]) -> bool:
        """Whether the stacks of these threads are written, and nothing more for a while."""
        now, size = time.monotonic(), os.fstat(self._file.fileno()).st_size
        if size != self._size:
            self._size, self._quiet_since = size, now
        if now - self._quiet_since < QUIET_SECONDS:
            return False
        return set(threads) <= self._stacks().keys()

    def of(self, thread: int) -> str:
        """The stack of a thread, the most recent call first; '' when there is none."""
        first_line = self._text().partition("\n")[0]
        reason = first_line + "\n" if first_line.startswith("Fatal") else ""
        return reason + self._stacks().get(thread, "")

    def _text(self) -> str:
        return os.pread(self._file.fileno(), DUMP_BYTES_MAX, 0).decode(errors="replace")

    def _stacks(self) -> dict[int, str]:
        """The first one of each thread."""
        stacks: dict[int, str] = {}
        for block in BLOCK.finditer(self._text()):
            stacks.setdefault(int(block[1], 16), block[2].strip("\n"))
        return stacks

    def close(self) -> None:
        self._file.close()
