"""A connect that can be given up.

After the server's greeting mysqlclient asks it for two things, without a timeout, on a socket that
nobody else has yet. So it does that on a thread of its own, which is left alone if the server falls
silent.
"""

import _thread
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

from ..guard import capture_all, raised

LEFT_ALONE_MAX = 20  # threads of a process; each keeps a socket, and a session of the server
BEGIN_SECONDS_MAX = 1.0  # until a thread has begun
_left_alone: "list[ConnectAttempt]" = []
os.register_at_fork(after_in_child=_left_alone.clear)  # their threads are not there


class ConnectAttempt:
    """``silence`` is the error of an attempt that is given up; where too many are without an answer
    none is made, and another error of this class says so."""

    def __init__(self, connect: Callable[[], Any], silence: Exception) -> None:
        self._connect = connect
        self._silence = silence
        self._answers: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._is_given_up = False
        self._has_begun, self._is_over = threading.Event(), threading.Event()

    def result(self) -> Any:
        """The driver's connection."""
        _left_alone[:] = [one for one in _left_alone if not one._is_over.is_set()]
        if len(_left_alone) >= LEFT_ALONE_MAX:
            text = f"no connect is made: {LEFT_ALONE_MAX} connects are still without an answer"
            raise type(self._silence)(text)
        if not self._begins():
            return self._connect()  # no thread is to be had, and outcomes are to be written
        session, problem = self._answers.get()
        if problem is self._silence:
            _left_alone.append(self)
            raise self._silence
        self._is_over.wait()  # a process may be forked next
        if problem is not None:
            raise raised(problem)
        return session

    def _begins(self) -> bool:
        """Whether a thread is at it: the system may have none, or no memory for its first call."""
        try:
            # ``Thread.start()`` would wait for such a thread for ever.
            _thread.start_new_thread(copy_context().run, (self._run,))
        except (RuntimeError, MemoryError):
            return False
        self._has_begun.wait(BEGIN_SECONDS_MAX)
        with self._lock:
            self._is_given_up = self._is_given_up or not self._has_begun.is_set()
        return self._has_begun.is_set()

    def give_up(self) -> None:
        """For another thread."""
        with self._lock:
            self._is_given_up = True
        self._answers.put((None, self._silence))

    def _run(self) -> None:
        with self._lock:
            if self._is_given_up:
                return
            self._has_begun.set()
        try:
            self._ask()
        finally:
            self._is_over.set()

    def _ask(self) -> None:
        session = None
        with capture_all() as attempt:
            session = self._connect()
        with self._lock:
            is_late = self._is_given_up
            if not is_late:
                self._answers.put((session, attempt.error))
        if is_late and session is not None:
            with capture_all():
                session.close()
