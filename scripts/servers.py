#!/usr/bin/env python3
"""Private MariaDB, PostgreSQL, MySQL and Redis servers for tests, on unix sockets only.

    servers.py run [--mariadb] [--postgresql] [--mysql] [--redis] [--in-memory] -- COMMAND ARGS...
    servers.py start [--mariadb] [--postgresql] [--mysql] [--redis] DIR
    servers.py stop DIR

`run` starts the servers (MariaDB and PostgreSQL, if none is named), runs COMMAND with their
DBQUEUE_..._URL set, stops the servers, removes their data and exits with COMMAND's code.
`start` leaves them running and prints the URLs as shell exports; `stop` keeps the data in DIR.
Standard library only: this runs before there is any virtual environment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from database_servers import Failure, PostgreSQL, Server, stop, wait_for
from folders import in_memory
from mysql_servers import MariaDB, MySQL
from redis_server import Redis

SERVERS: tuple[type[Server], ...] = (MariaDB, PostgreSQL, MySQL, Redis)
COMMAND_GRACE = 10.0
# Linux allows 107 bytes for a socket's path; the longest name that we add below DIR has 28.
MAX_FOLDER = 75
stop_signals: list[int] = []


def on_signal(signum: int, _frame: object) -> None:
    stop_signals.append(signum)
    stop.set()


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
    return [kind(folder) for kind in named or (kind for kind in SERVERS if kind.is_default)]


def run(arguments: argparse.Namespace) -> int:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, on_signal)
    # Not the system's temporary folder: it may be too deep for a socket's path.
    place = in_memory() if arguments.in_memory else None
    folder = Path(tempfile.mkdtemp(prefix="dbq-", dir=place or "/tmp"))
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
    runner.add_argument(
        "--in-memory", action="store_true", help="their data is kept there, if there is room"
    )
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
