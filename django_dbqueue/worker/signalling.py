"""An event that a signal handler may set."""

import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

STOPPING = signal.SIGTERM, signal.SIGINT
HANDLED = (*STOPPING, signal.SIGHUP, signal.SIGUSR2, signal.SIGCONT, signal.SIGCHLD)
POLL_SECONDS_MAX = 1e6  # a poll counts its milliseconds in 31 bits


def wait_readable(descriptors: list[int], seconds: float | None) -> bool:
    """Wait until one of them can be read, or has been closed at the other end."""
    poll = select.poll()  # select() knows only the first 1,024 descriptors
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(
        poll.poll(None if seconds is None else min(max(0.0, seconds), POLL_SECONDS_MAX) * 1000)
    )


class WakeupPipe:
    """Like ``threading.Event``, for one waiting thread, but safe to set in a signal handler.

    ``Event.set()`` there can deadlock with the very ``wait()`` that it interrupts. Where signals
    may set it, it is never closed: one may come in a process's last moment.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)

    def set(self) -> None:
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            pass  # it is set many times over

    @property
    def descriptor(self) -> int:
        """Readable while it is set."""
        return self._reader

    def wait(self, seconds: float, others: Sequence[int] = ()) -> None:
        """Sleep until it is set, one of ``others`` can be read, or the time is over; clears it."""
        wait_readable([self._reader, *others], seconds)
        self.clear()

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def clear(self) -> None:
        try:
            os.read(self._reader, 65536)
        except BlockingIOError:
            pass  # it was not set


class Signals:
    """What signals ask for; handlers do nothing but note and wake.

    TERM, INT: stop. HUP: replace the children, but where a terminal was closed: stop. USR2: pause.
    CONT: go on. CHLD: look at the children.
    """

    def __init__(self, wakeup: WakeupPipe) -> None:
        self.wakeup = wakeup
        self.stops = 0
        self.last = ""
        self.replace = False
        self.paused = False

    def install(self) -> None:
        hangup_stops = os.isatty(0)

        def note(number: int, _: FrameType | None) -> None:
            if number in STOPPING or (number == signal.SIGHUP and hangup_stops):
                self.stops += 1
                self.last = signal.Signals(number).name
            elif number == signal.SIGHUP:
                self.replace = True
            elif number != signal.SIGCHLD:
                self.paused = number == signal.SIGUSR2
            self.wakeup.set()

        for number in HANDLED:
            signal.signal(number, note)

    def ignore(self) -> None:
        """While the process ends: Python takes its own handlers off then, and would die of one."""
        for number in (*STOPPING, signal.SIGHUP, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def own_handlers() -> Iterator[None]:
    """Of a process that is no worker's own: its handlers of signals are as before at the end."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def forget_signals() -> None:
    """In a child: a supervisor's signals mean nothing to it, but TERM."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        # The terminal's Ctrl-C reaches the whole group; the supervisor decides what it means.
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCONT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
