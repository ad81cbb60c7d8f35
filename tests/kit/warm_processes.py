"""Processes that need not import Django first: forks of one that has, which is half of a start.

They are processes like any others, with their own settings, and import all of ours by themselves.
What the interpreter reads from its environment as it starts (``PYTHON..``, ``LD_..``) is the
server's, except PYTHONPATH.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from django.db import connection


class Warm:
    """What is used of ``subprocess.Popen``, with its stdout, if asked for, in a pipe."""

    def __init__(
        self,
        args: list[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stderr: IO[Any] | int,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        self._said: list[bytes] = []
        read, out = os.pipe()
        self._out = os.fdopen(read, "rb", buffering=0)
        read, news = os.pipe()
        self._news = os.fdopen(read, "rb", buffering=0)
        null = os.open(os.devnull, os.O_RDWR)
        request = {"folder": str(cwd), "env": env, "args": args}
        error = stderr if isinstance(stderr, int) else stderr.fileno()
        source = null if stdin == subprocess.DEVNULL else stdin
        socket.send_fds(_server(), [json.dumps(request).encode()], [source, out, error, news])
        for file in (out, news, null):
            os.close(file)
        self.pid = int(self._news.readline())

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.returncode = int(self._news.readline())
            self._news.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._wait_for(self._news, _deadline(timeout))
        return self.poll() or 0

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Until all have closed its stdout, and it has ended."""
        deadline = _deadline(timeout)
        while not self._out.closed:
            self._wait_for(self._out, deadline)
            if part := self._out.read(65536):
                self._said.append(part)
            else:
                self._out.close()
        self.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        return b"".join(self._said).decode(), None

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def _wait_for(self, file: IO[bytes], deadline: float | None) -> None:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([file], [], [], left)[0]:
            raise subprocess.TimeoutExpired(self.args, left or 0.0)


def run(
    args: list[str], *, cwd: Path, env: dict[str, str], stdin: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Like ``subprocess.run`` with all captured."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as error:
        given.write(stdin)
        given.seek(0)
        process = Warm(args, cwd=cwd, env=env, stderr=error, stdin=given.fileno())
        try:
            out, _ = process.communicate(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        error.seek(0)
        return subprocess.CompletedProcess(args, process.wait(), out, error.read())


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout


@cache
def _server() -> socket.socket:
    """It lives as long as this process keeps the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    engine = connection.settings_dict["ENGINE"]
    command = [sys.executable, str(Path(__file__).with_name("warm_server.py")), str(number)]
    server = subprocess.Popen(
        [*command, f"{engine}.base", f"{engine}.schema"],
        stdin=subprocess.DEVNULL,
        pass_fds=[number],
        start_new_session=True,
    )
    theirs.close()
    atexit.register(_end, ours, server)
    return ours


def _end(ours: socket.socket, server: subprocess.Popen[bytes]) -> None:
    ours.close()
    server.wait()
