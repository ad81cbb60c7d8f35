"""Database servers of one's own, below a folder, on unix sockets only; and PostgreSQL.

Standard library only: this runs before there is any virtual environment.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

DATABASE = "dbqueue"
START_DEADLINE = 60.0
STOP_DEADLINE = 60.0
# Set it, and nobody waits for a server to start any more.
stop = threading.Event()


class Failure(Exception):
    """A message for the person at the terminal."""


def binary(name: str, package: str, folders: Iterable[str] = ()) -> str:
    """Find a program, also where a normal user's PATH does not look."""
    path = os.pathsep.join([*folders, os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        raise Failure(f"{name} not found: install the package {package}")
    return found


class Server:
    """One server below one folder; its pid is in a file, so that `stop` can find it later."""

    name = ""
    url_variable = ""
    # Started where no server is named?
    is_default = True
    stop_signal = signal.SIGTERM
    account: str | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.name
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self.pid_file = self.folder / "server.pid"

    def url(self) -> str:
        raise NotImplementedError

    def initialise(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def ping(self) -> list[str]:
        raise NotImplementedError

    def create_database(self) -> None:
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Popen's arguments for running as this server's own account."""
        if self.account is None:
            return {}
        entry = pwd.getpwnam(self.account)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}

    def call(self, *command: str) -> None:
        """Run a short helper, its output in the log, which a failure shows."""
        with self.log.open("ab") as log:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                check=False,
                **self.identity(),
            )
        if done.returncode:
            raise Failure(f"{command[0]} failed\n{self.log_tail()}")

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-20:])

    def pid(self) -> int | None:
        """The running server's pid; a stale file, or another program with that pid, is None."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.data) in command_line(pid) else None

    def start(self) -> None:
        if self.pid() is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.account is not None:
            shutil.chown(self.folder, self.account, pwd.getpwnam(self.account).pw_gid)
        fresh = not self.data.exists()
        if fresh:
            self.initialise()
        self.launch()
        if fresh:
            self.create_database()

    def launch(self) -> None:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C is for the command, which may still need the server.
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                **self.identity(),
            )
        self.pid_file.write_text(str(process.pid))
        self.wait_until_it_answers(process)

    def wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise Failure(f"{self.name} exited while starting\n{self.log_tail()}")
            if subprocess.run(self.ping(), capture_output=True, check=False).returncode == 0:
                return
            if stop.wait(0.1):
                raise Failure(f"interrupted while {self.name} was starting")
        raise Failure(f"{self.name} did not answer in {START_DEADLINE:.0f} s\n{self.log_tail()}")

    def stop(self) -> bool:
        """Stop the server and wait until it is gone; False if it was not running."""
        pid = self.pid()
        if pid is None:
            return False
        os.kill(pid, self.stop_signal)
        if not wait_for(lambda: is_gone(pid), STOP_DEADLINE):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: is_gone(pid), STOP_DEADLINE)
        self.pid_file.unlink(missing_ok=True)
        return True

    def freeze(self) -> list[int]:
        """SIGSTOP to all of its processes; their pids."""
        frozen: list[int] = []
        # The first one first, so that it starts no more of them.
        while new := [pid for pid in family(self.pid()) if pid not in frozen]:
            for pid in new:
                send(pid, signal.SIGSTOP)
            frozen += new
        return frozen

    def kill(self) -> None:
        """SIGKILL to all of its processes, as when the machine goes down."""
        for pid in (killed := self.freeze()):
            send(pid, signal.SIGKILL)
        if not wait_for(lambda: all(map(is_gone, killed)), STOP_DEADLINE):
            raise Failure(f"{self.name} does not die")
        self.pid_file.unlink(missing_ok=True)


class PostgreSQL(Server):
    name = "postgresql"
    url_variable = "DBQUEUE_POSTGRESQL_URL"
    package = "postgresql"
    # Fast shutdown: it does not wait for clients.
    stop_signal = signal.SIGINT

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        # PostgreSQL refuses to run as root. Popen changes the user itself, where runuser would
        # stand between us and the server's pid.
        self.account = "postgres" if os.geteuid() == 0 else None
        folders = sorted(
            map(str, Path("/usr/lib/postgresql").glob("*/bin")), key=major_version, reverse=True
        )
        self.binaries = {
            name: binary(name, self.package, folders)
            for name in ("initdb", "postgres", "pg_isready", "createdb")
        }

    def url(self) -> str:
        return f"postgresql://postgres@{quote(str(self.folder), safe='')}/{DATABASE}"

    def initialise(self) -> None:
        self.call(
            self.binaries["initdb"],
            f"--pgdata={self.data}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )

    def command(self) -> list[str]:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "max_connections": "300",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self.binaries["postgres"], "-D", str(self.data), *options]

    def ping(self) -> list[str]:
        return [self.binaries["pg_isready"], f"--host={self.folder}", "--dbname=postgres", "-q"]

    def kill(self) -> None:
        super().kill()
        # As long as nobody has reaped the old one, a new one would take it for alive.
        for lock in (self.data / "postmaster.pid", self.folder / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def create_database(self) -> None:
        self.call(
            self.binaries["createdb"], f"--host={self.folder}", "--username=postgres", DATABASE
        )


def major_version(folder: str) -> int:
    digits = Path(folder).parent.name.split(".")[0]
    return int(digits) if digits.isdigit() else 0


def command_line(pid: int) -> bytes:
    """What a process runs; empty if it is gone, or dead and not yet reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def family(pid: int | None) -> list[int]:
    """A process and its descendants, parents first."""
    if pid is None:
        return []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has just ended
        children = []
    return [pid, *(each for child in children for each in family(int(child)))]


def send(pid: int, number: int) -> None:
    """A signal to a process, which may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def is_gone(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # started by another process, or reaped already
        return not command_line(pid)


def wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
