"""``manage.py`` at a terminal of its own, as a person has it: what it shows, and keys."""

import os
import pty
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from fcntl import ioctl
from functools import partial
from pathlib import Path

from tests.kit.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
# The size of another terminal, and what its person wants.
NOT_ITS_OWN = {"COLUMNS", "LINES", "NO_COLOR"}
ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>])")


class Terminal:
    """One process, which has no other input, output and errors than this."""

    def __init__(self, database_url: str, *args: str, width: int = 120, **more: str) -> None:
        self.ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        own = {"DATABASE_URL": database_url, "DBQUEUE_TESTS": "1", "DEBUG": "0", "TERM": "xterm"}
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_ITS_OWN}
        self.popen = subprocess.Popen(
            [sys.executable, "manage.py", *args],
            cwd=ROOT,
            env=inherited | own | more,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            # So that Ctrl-C at it is a signal.
            preexec_fn=partial(ioctl, 0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(theirs)
        self._said = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):  # it is gone
            while chunk := os.read(self.ours, 65536):
                self._said += chunk

    @property
    def raw(self) -> str:
        """All that it has written so far."""
        return self._said.decode(errors="replace")

    @property
    def text(self) -> str:
        """The same without colours and moves of the cursor."""
        return ESCAPES.sub("", self.raw)

    def wait_for(self, words: str, seconds: float = 60) -> None:
        try:
            wait_until(lambda: words in self.text, seconds)
        except AssertionError:
            raise AssertionError(f"{words!r} is not in {self.text[-5_000:]}") from None

    def press(self, keys: str) -> None:
        """The words that come after it are new."""
        self._said.clear()
        os.write(self.ours, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C until it has ended: Python may miss a signal that comes just before it reads
        a line, and heeds it with the next one."""
        again_at = 0.0  # not while it ends

        def has_ended() -> bool:
            nonlocal again_at
            now = time.monotonic()
            if now >= again_at and self.popen.poll() is None:
                os.write(self.ours, b"\x03")
                again_at = now + 10
            return self.popen.poll() is not None

        wait_until(has_ended)

    def end(self, seconds: float = 60) -> int:
        """Its exit code, once it has ended by itself."""
        code = self.popen.wait(seconds)
        self._reader.join(5)
        return code


def lose_ctrl_c() -> None:
    """Ctrl-C in a function of SQLite's that is written in Python: what is raised is another
    error."""
    database = sqlite3.connect(":memory:")
    database.create_function("press", 0, lambda: signal.raise_signal(signal.SIGINT))
    with closing(database), suppress(sqlite3.OperationalError):
        database.execute("SELECT press()")


@contextmanager
def at_terminal(database_url: str, *args: str, width: int = 120, **more: str) -> Iterator[Terminal]:
    terminal = Terminal(database_url, *args, width=width, **more)
    try:
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.killpg(terminal.popen.pid, signal.SIGKILL)
        terminal.popen.wait()
        os.close(terminal.ours)
