"""Processes that need not import Django first: forks of one that has, which is half of a start.

They are processes like any others, with their own settings, and import all of ours by themselves.
Where ``manage.py`` of the test project is to run, and none of the variables that its set-up reads
differs, they are forks of a server that has done this set-up, too: another quarter of a second.
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
        server = _server_for(args, cwd, env)
        socket.send_fds(server, [json.dumps(request).encode()], [source, out, error, news])
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


ROOT = Path(__file__).resolve().parents[2]
# Of those that have set the project up: each takes as long as a process, and stays.
FEW = 2
_of_projects: list[tuple[socket.socket, dict[str, str | None]]] = []


def _server_for(args: list[str], folder: Path, env: dict[str, str]) -> socket.socket:
    if args[0] != "manage.py" or folder != ROOT:
        return _bare()
    for server, read in _of_projects:
        if all(env.get(name) == value for name, value in read.items()):
            return server
    if len(_of_projects) < FEW:
        _of_projects.append(_started("project", env))
        return _server_for(args, folder, env)
    return _bare()


@cache
def _bare() -> socket.socket:
    return _started("bare", dict(os.environ))[0]


def _started(kind: str, env: dict[str, str]) -> tuple[socket.socket, dict[str, str | None]]:
    """A server, and the variables of its environment that matter; it lives as long as this process
    keeps the socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    engine = connection.settings_dict["ENGINE"]
    command = [sys.executable, str(Path(__file__).with_name("warm_server.py")), str(number), kind]
    server = subprocess.Popen(
        [*command, f"{engine}.base", f"{engine}.schema"],
        stdin=subprocess.DEVNULL,
        pass_fds=[number],
        start_new_session=True,
        cwd=ROOT,
        env=env,
    )
    theirs.close()
    atexit.register(_end, ours, server)
    # What cannot be set up fits nobody: a process of its own will say why.
    told = ours.recv(1 << 20) or b'{"": "it has ended"}'
    return ours, json.loads(told)


def _end(ours: socket.socket, server: subprocess.Popen[bytes]) -> None:
    ours.close()
    server.wait()
