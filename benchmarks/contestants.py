"""Who is measured, and how to talk to a contestant in its own environment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS, GROWTH, BARE = "dbqueue", "growth", "bare"
POSTGRESQL, REDIS = frozenset({"postgresql"}), frozenset({"redis"})
SERVERS = frozenset({"mariadb", "mysql", "postgresql"})
SQLITE = frozenset({"sqlite"})
SQL = SERVERS | SQLITE


class NoResult(Exception):
    """A drain that does not count, and why."""


@dataclass(frozen=True)
class Contestant:
    """An adapter in one of its modes, on the databases or brokers that it is measured on.

    ``jobs`` is what takes it some seconds; some of ours and of bare SQL's would need more, but
    are to be compared over the same number.
    """

    name: str
    mode: str
    adapter: str
    on: frozenset[str]
    jobs: int

    @property
    def label(self) -> str:
        return f"{self.name}, {self.mode}"

    @property
    def is_ours(self) -> bool:
        return self.adapter in {OURS, GROWTH}

    @property
    def is_bare(self) -> bool:
        return self.adapter == BARE

    @property
    def python(self) -> str:
        """Of its own environment, which the Makefile has made; ours is the one we run in."""
        if self.is_ours or self.is_bare:
            return sys.executable
        folder = ROOT / os.environ.get("BENCH_PEERS", ".venv-peers")
        return str(folder / self.adapter / "bin" / "python")

    def command(self, verb: str, *arguments: object) -> list[str]:
        call = [self.adapter, self.mode, verb, *map(str, arguments)]
        return [self.python, "-m", "benchmarks.inside", *call]

    def ask(self, env: Mapping[str, str], verb: str, *arguments: object) -> Any:
        """Run a verb to its end; its answer."""
        command = self.command(verb, *arguments)
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise NoResult(f"{self.python} is missing; `make bench` makes it") from error
        if done.returncode:
            raise NoResult(f"{verb} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def start(
        self, env: Mapping[str, str], log: Path, verb: str, *arguments: object
    ) -> "subprocess.Popen[bytes]":
        """Start a verb, its output in the log."""
        with log.open("wb") as file:
            # A session of its own, so that all its processes can be ended together.
            return subprocess.Popen(
                self.command(verb, *arguments),
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )


CONTESTANTS = (
    Contestant("django-dbqueue", "best", OURS, SQL, 20_000),
    Contestant("django-dbqueue", "default", OURS, SQL, 20_000),
    Contestant("django-dbqueue", "best, letting go", OURS, SQL, 20_000),
    Contestant("django-dbqueue", "best, durable", OURS, SQLITE, 20_000),
    Contestant("bare SQL", "one connection", BARE, SQL, 20_000),
    Contestant("bare SQL", "like ours", BARE, SQL, 20_000),
    Contestant("bare SQL", "like ours, letting go", BARE, SQL, 20_000),
    Contestant("bare SQL", "like ours, durable", BARE, SQLITE, 20_000),
    Contestant("django-tasks-db", "best", "django_tasks_db", SQL, 1_500),
    Contestant("django-tasks-db", "default", "django_tasks_db", SQL, 500),
    Contestant("django-q2", "best", "django_q2", SQL, 3_000),
    Contestant("django-q2", "default", "django_q2", SQL, 1_000),
    Contestant("procrastinate", "best", "procrastinate", POSTGRESQL, 3_000),
    Contestant("procrastinate", "default", "procrastinate", POSTGRESQL, 2_000),
    Contestant("pgqueuer", "best", "pgqueuer", POSTGRESQL, 20_000),
    Contestant("pgqueuer", "default", "pgqueuer", POSTGRESQL, 20_000),
    Contestant("huey", "best", "huey", REDIS | {"sqlite"}, 10_000),
    Contestant("huey", "default", "huey", REDIS | {"sqlite"}, 10_000),
    Contestant("celery", "best", "celery", REDIS, 3_000),
    Contestant("celery", "default", "celery", REDIS, 3_000),
    Contestant("rq", "best", "rq", REDIS, 1_000),
    Contestant("rq", "default", "rq", REDIS, 300),
    Contestant("dramatiq", "best", "dramatiq", REDIS, 15_000),
    Contestant("dramatiq", "default", "dramatiq", REDIS, 10_000),
)


def end(process: "subprocess.Popen[bytes]", patience: float) -> None:
    """Ask a process to stop; after some patience kill it with all its children."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
