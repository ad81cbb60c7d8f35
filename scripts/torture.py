#!/usr/bin/env python3
"""Torture the queue on SQLite and on private servers, which are killed and restarted, too.

    torture.py [--minutes M] [--seed N] [--only NAME]... [--handover M] [--keep FOLDER]
               [TORTURE OPTIONS...]

NAME: sqlite, mariadb, postgresql. `--handover` adds a run of so many minutes with kills alone and a
light load, which shows how soon others have a killed worker's jobs. Exits 1 where one was red.
`torture.py restart NAME FOLDER` kills and restarts a server.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from database_servers import Failure, PostgreSQL, Server
from mysql_servers import MariaDB

ROOT = Path(__file__).resolve().parent.parent
SERVERS: dict[str, type[Server]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}
DATABASES = ("sqlite", *SERVERS)
READ_ONLY = "35"  # seconds between spells
HANDOVER = {
    "--jobs-per-second": "4",
    "--long-jobs": "1",
    "--kill9": "1.2",
    "--groups": "0.3",
    "--stop": "0",
    "--drop-connections": "0",
    "--deadlocks": "0",
    "--snapshot": "0",
    "--skew": "0",
}


class Torture:
    """One database's turn."""

    def __init__(self, name: str, given: argparse.Namespace, folder: Path) -> None:
        self.name = name
        self.given = given
        self.folder = folder
        self.server = SERVERS[name](folder) if name in SERVERS else None

    def run(self) -> int:
        if self.server is not None:
            self.server.start()
        try:
            return self.all_runs()
        finally:
            if self.server is not None:
                self.server.stop()

    def all_runs(self) -> int:
        code = self.once("faults", self.given.minutes, self.faults())
        if self.given.handover:
            kills = [word for option in HANDOVER.items() for word in option]
            code = max(code, self.once("hand-over", self.given.handover, kills))
        return code

    def faults(self) -> list[str]:
        more: list[str] = self.given.more
        if self.server is None:
            return more
        restart = [sys.executable, __file__, "restart", self.name, str(self.folder)]
        server = ["--restart-database", shlex.join(restart), "--read-only", READ_ONLY]
        return server + more

    def once(self, title: str, minutes: float, options: list[str]) -> int:
        print(f"\n== {self.name}: {title}", flush=True)
        usual = ["--minutes", str(minutes), "--seed", str(self.given.seed)]
        if self.given.keep:
            usual += ["--keep", str(self.given.keep / f"{self.name}-{title}")]
        command = [sys.executable, "manage.py", "dbqueue", "torture", *usual, *options]
        process = subprocess.Popen(command, cwd=ROOT, env=self.environment())
        try:
            return process.wait()
        finally:
            # It cleans up when it is asked to, not when it is killed.
            process.terminate()
            process.wait()

    def environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        return plain if self.server is None else plain | {"DATABASE_URL": self.server.url()}


def restart(name: str, folder: str) -> None:
    server = SERVERS[name](Path(folder))
    server.kill()
    server.start()


def torture(given: argparse.Namespace) -> int:
    # Not the system's temporary folder: it may be too deep for a socket's path.
    folder = Path(tempfile.mkdtemp(prefix="dbq-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        return max(Torture(name, given, folder).run() for name in given.only or DATABASES)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--only", action="append", choices=DATABASES)
    parser.add_argument("--handover", type=float, default=0.0, metavar="MINUTES")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    given, given_on = parser.parse_known_args(argv)
    given.more = given_on
    return given


def main(argv: list[str]) -> int:
    try:
        if argv[:1] == ["restart"]:
            restart(*argv[1:])
            return 0
        # The finally clauses stop the servers.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return torture(parse(argv))
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
