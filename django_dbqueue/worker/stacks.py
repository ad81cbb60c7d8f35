"""Where a child was when it crashed or had to be stopped, written by its own fault handler.

That works while a job keeps Python's lock, and in a process that is dying.
"""

import faulthandler
import os
import re
import signal
import tempfile

ASK = signal.SIGUSR1
MOST = 256 * 1024  # bytes
BLOCK = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]+).*\n((?:  .*\n?)*)", re.MULTILINE)


class Stacks:
    """A file that a supervisor and one child share."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child lives
        self._size = -1

    def record(self) -> None:
        """In the child: write all threads' stacks on a crash, and whenever it is asked."""
        faulthandler.enable(self._file)
        faulthandler.register(ASK, self._file)

    def ask(self, pid: int) -> None:
        os.kill(pid, ASK)

    def has_answered(self) -> bool:
        """Whether stacks were written, and nothing more since the last look."""
        size, before = os.fstat(self._file.fileno()).st_size, self._size
        self._size = size
        return 0 < size == before

    def of(self, thread: int) -> str:
        """The stack of a thread, the most recent call first; '' when there is none."""
        text = os.pread(self._file.fileno(), MOST, 0).decode(errors="replace")
        reason = text.partition("\n")[0] + "\n" if text.startswith("Fatal") else ""
        for block in BLOCK.finditer(text):
            if int(block[1], 16) == thread:
                return reason + block[2].strip("\n")
        return reason

    def close(self) -> None:
        self._file.close()
