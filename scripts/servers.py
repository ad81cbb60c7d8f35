#!/usr/bin/env python3
"""Private MariaDB and PostgreSQL servers for tests and benchmarks, on unix sockets only.

    servers.py run [--mariadb] [--postgresql] -- COMMAND ARGS...
    servers.py start [--mariadb] [--postgresql] DIR
    servers.py stop DIR

`run` starts the servers (both, if none is named), runs COMMAND with DBQUEUE_MARIADB_URL and
DBQUEUE_POSTGRESQL_URL set, stops the servers, removes their data and exits with COMMAND's code.
`start` leaves them running and prints the URLs as shell exports; `stop` keeps the data in DIR.
Standard library only: this runs before there is any virtual environment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

DATABASE = "dbqueue"
START_DEADLINE = 60.0
STOP_DEADLINE = 60.0
COMMAND_GRACE = 10.0
# Linux allows 107 bytes for a socket's path; the longest name that we add below DIR has 28.
MAX_FOLDER = 75
stop_signals: list[int] = []
stop = threading.Event()


class Failure(Exception):
    """A message for the person at the terminal."""


def on_signal(signum: int, _frame: object) -> None:
    stop_signals.append(signum)
    stop.set()


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


class MariaDB(Server):
    name = "mariadb"
    url_variable = "DBQUEUE_MARIADB_URL"
    package = "mariadb-server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.socket = self.folder / "server.sock"
        self.as_root = ["--user=root"] if os.geteuid() == 0 else []
        self.server = binary("mariadbd", self.package)
        self.install = binary("mariadb-install-db", self.package)
        self.client = binary("mariadb", "mariadb-client")
        self.admin = binary("mariadb-admin", "mariadb-client")

    def url(self) -> str:
        return f"mysql://root@localhost/{DATABASE}?unix_socket={quote(str(self.socket))}"

    def initialise(self) -> None:
        self.call(
            self.install,
            "--no-defaults",
            f"--datadir={self.data}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            *self.as_root,
        )

    def command(self) -> list[str]:
        return [
            self.server,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--socket={self.socket}",
            "--skip-networking",
            "--character-set-server=utf8mb4",
            "--innodb-buffer-pool-size=128M",
            "--max-connections=300",
            *self.as_root,
        ]

    def ping(self) -> list[str]:
        return [self.admin, "--no-defaults", f"--socket={self.socket}", "--user=root", "ping"]

    def create_database(self) -> None:
        sql = f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"
        self.call(self.client, "--no-defaults", f"--socket={self.socket}", "--user=root", "-e", sql)


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

    def create_database(self) -> None:
        self.call(
            self.binaries["createdb"], f"--host={self.folder}", "--username=postgres", DATABASE
        )


SERVERS: tuple[type[Server], ...] = (MariaDB, PostgreSQL)


def major_version(folder: str) -> int:
    digits = Path(folder).parent.name.split(".")[0]
    return int(digits) if digits.isdigit() else 0


def command_line(pid: int) -> bytes:
    """What a process runs; empty if it is gone, or dead and not yet reaped."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


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


def start_all(servers: list[Server]) -> dict[str, str]:
    """Start the servers; on failure none is left running."""
    with contextlib.ExitStack() as undo:
        undo.callback(stop_all, servers)
        for server in servers:
            server.start()
        undo.pop_all()
    return {server.url_variable: server.url() for server in servers}


def stop_all(servers: list[Server]) -> list[str]:
    return [server.name for server in servers if server.stop()]


def run_command(command: list[str], urls: dict[str, str]) -> int:
    """Run the command to its end; a signal to us ends it first."""
    if stop.is_set():
        return 128 + stop_signals[0]
    try:
        process = subprocess.Popen(command, env={**os.environ, **urls})
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from error
    while process.poll() is None and not stop.wait(0.1):
        pass
    if process.poll() is None:
        end_command(process)
    if stop_signals:
        return 128 + stop_signals[0]
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def end_command(process: subprocess.Popen[bytes]) -> None:
    """End the command, after some patience: a terminal's Ctrl-C has reached it already."""

    def ended() -> bool:
        return process.poll() is not None

    wait_for(lambda: ended() or stop_signals != [signal.SIGINT], COMMAND_GRACE)
    for send in (process.terminate, process.kill):
        if not ended():
            send()
            wait_for(ended, COMMAND_GRACE)


def chosen(arguments: argparse.Namespace, folder: Path) -> list[Server]:
    named = [kind for kind in SERVERS if getattr(arguments, kind.name)]
    return [kind(folder) for kind in named or SERVERS]


def run(arguments: argparse.Namespace) -> int:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, on_signal)
    # Not the system's temporary folder: it may be too deep for a socket's path.
    folder = Path(tempfile.mkdtemp(prefix="dbq-", dir="/tmp"))
    try:
        folder.chmod(0o711)
        servers = chosen(arguments, folder)
        urls = start_all(servers)
        try:
            return run_command(arguments.command, urls)
        finally:
            stop_all(servers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start(arguments: argparse.Namespace) -> int:
    folder = arguments.folder.resolve()
    if len(os.fsencode(folder)) > MAX_FOLDER:
        raise Failure(f"{folder}: over {MAX_FOLDER} bytes, too long for a socket's path")
    folder.mkdir(parents=True, exist_ok=True)
    for variable, url in start_all(chosen(arguments, folder)).items():
        print(f"export {variable}={shlex.quote(url)}")
    return 0


def stop_folder(arguments: argparse.Namespace) -> int:
    folder = arguments.folder.resolve()
    servers = [kind(folder) for kind in SERVERS if (folder / kind.name).exists()]
    print("stopped:", ", ".join(stop_all(servers)) or "nothing was running")
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    actions = parser.add_subparsers(required=True, metavar="run|start|stop")
    which = argparse.ArgumentParser(add_help=False)
    for kind in SERVERS:
        which.add_argument(f"--{kind.name}", action="store_true", help=f"only {kind.name}")
    runner = actions.add_parser("run", parents=[which], help="run a command with the servers up")
    runner.set_defaults(action=run)
    runner.add_argument("command", nargs="+", metavar="COMMAND")
    starter = actions.add_parser("start", parents=[which], help="start them and leave them running")
    starter.set_defaults(action=start)
    stopper = actions.add_parser("stop", help="stop what `start` started")
    stopper.set_defaults(action=stop_folder)
    for sub in (starter, stopper):
        sub.add_argument("folder", type=Path, metavar="DIR")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    arguments = parse(argv)
    try:
        code: int = arguments.action(arguments)
    except Failure as failure:
        print(f"servers.py: {failure}", file=sys.stderr)
        return 128 + stop_signals[0] if stop_signals else 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
