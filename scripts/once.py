#!/usr/bin/env python3
"""Jobs with exactly-once effects under SIGKILL: the effects are counted, one a job is right.

    once.py [--jobs 5000] [--every 1.0] [--kills 0] [--seed 5]
    once.py --queue WHERE [--effects WHERE] [--without fence|receipt] ...

WHERE is sqlite, mariadb, postgresql (DBQUEUE_..._URL), or a URL; the databases are made and
dropped. Without --queue all routes are run: each database alone, and three pairs. Workers are
real; about once a second a child, or a supervisor with its children, is killed, or frozen for
longer than a beat may be missing. With fewer kills than --kills it goes on with more jobs.
--without takes a safety out, to see that it is needed.
Exits 1 unless every job is done and has exactly one effect.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROUTES = (
    ("sqlite", "sqlite"),
    ("mariadb", "mariadb"),
    ("postgresql", "postgresql"),
    ("sqlite", "mariadb"),
    ("mariadb", "postgresql"),
    ("postgresql", "sqlite"),
)
WORKERS = 2
FREEZE = 6.0  # seconds; until then another worker has taken over what was frozen
LONGEST = 3600.0  # seconds until a route is given up

SETTINGS = """
import os
from testproject import settings as base

def place(variable, name):
    config = base.database(variable)
    config["TEST"] = config.get("TEST", {}) | {"NAME": os.environ[name]}
    if os.environ.get("ONCE_READY"):
        config["NAME"] = os.environ[name]
    return config

DATABASES = {"default": place("ONCE_QUEUE", "ONCE_QUEUE_NAME")}
if os.environ["ONCE_ALIAS"] == "effects":
    DATABASES["effects"] = place("ONCE_EFFECTS", "ONCE_EFFECTS_NAME")
DATABASE_ROUTERS = ["once_settings.Router"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "for-a-test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "bank"]

class Router:
    def db_for_read(self, model, **hints):
        return os.environ["ONCE_ALIAS"] if model.__name__ == "Booking" else None
    db_for_write = db_for_read
"""

MODELS = """
import os, random, time
from django.db import models, transaction
from django_dbqueue.backoff import Fixed
from django_dbqueue.lifecycle import holder
from django_dbqueue.models import Job
from django_dbqueue.models.exactly_once import ExactlyOnceRun

ALIAS = os.environ["ONCE_ALIAS"]
PAUSE = float(os.environ["ONCE_PAUSE"])

class Booking(models.Model):
    job = models.BigIntegerField(db_index=True)

class Transfer(Job):
    class Meta(Job.Meta):
        pass
    class Policy:
        exactly_once = True if ALIAS == "default" else ALIAS
        time_to_run = 60
        max_attempts = 1000
        backoff = Fixed(0.1)
    def run(self):
        with open("starts", "ab", buffering=0) as starts:
            starts.write(b".")
        Booking.objects.create(job=self.pk)
        time.sleep(random.uniform(0, PAUSE))
        # A kill may well come between the commit of the effects and what follows it.
        transaction.on_commit(lambda: time.sleep(random.uniform(0, PAUSE)), using=ALIAS)

def end(self):
    if self._receipt is None:
        table = self.table
        with table.connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table.name} SET status = 2 WHERE {table.pk} = %s", [self.key])

if os.environ.get("ONCE_WITHOUT") == "fence":
    ExactlyOnceRun._end = end
    if ALIAS != "default":
        holder.touch = lambda table, owner, keys, allowance=0: holder.Written(written=list(keys))
if os.environ.get("ONCE_WITHOUT") == "receipt":
    ExactlyOnceRun._has_receipt = lambda self: False
    ExactlyOnceRun._end = lambda self: None
"""


class Route:
    """A small project of its own, with its databases and its workers."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.dice = random.Random(options.seed)
        self.faults: Counter[str] = Counter()
        self.workers: list[subprocess.Popen[bytes]] = []
        self.frozen: dict[int, float] = {}
        self.jobs = self.kicked = 0
        self._write()

    def _write(self) -> None:
        (self.folder / "bank").mkdir()
        (self.folder / "bank" / "__init__.py").touch()
        (self.folder / "bank" / "models.py").write_text(MODELS)
        (self.folder / "once_settings.py").write_text(SETTINGS)
        queue, effects = self.options.queue, self.options.effects or self.options.queue
        os.environ.update(
            DJANGO_SETTINGS_MODULE="once_settings",
            PYTHONPATH=os.pathsep.join([str(self.folder), str(ROOT)]),
            DEBUG="0",
            ONCE_QUEUE=url_of(queue, self.folder / "queue.sqlite3"),
            ONCE_EFFECTS=url_of(effects, self.folder / "effects.sqlite3"),
            ONCE_QUEUE_NAME=self._name(queue, "queue"),
            ONCE_EFFECTS_NAME=self._name(effects, "effects"),
            ONCE_ALIAS="default" if queue == effects else "effects",
            # One writer at a time: there all jobs stand in one line.
            ONCE_PAUSE=str(self.options.pause * (0.2 if is_sqlite(effects) else 1)),
            ONCE_WITHOUT=self.options.without or "",
            DBQUEUE_BEAT_INTERVAL="0.3",
            DBQUEUE_WORKER_TIMEOUT="2",
            DBQUEUE_REAP_INTERVAL="0.3",
        )
        sys.path[:0] = [str(self.folder), str(ROOT)]
        os.chdir(self.folder)

    def _name(self, where: str, what: str) -> str:
        return str(self.folder / what) if is_sqlite(where) else f"once_{what}_{os.getpid()}"

    def run(self) -> dict[str, Any]:
        """Enqueue, start workers, do harm until all is done; the figures."""
        from bank.models import Transfer  # type: ignore[import-not-found]

        began = time.monotonic()
        self._enqueue(Transfer)
        try:
            while len(self.workers) < WORKERS:
                self._start()
            while not self._is_done(Transfer):
                self._wait()
                self._do_harm()
                if time.monotonic() - began > LONGEST:
                    break
        finally:
            for process in self.workers:
                kill_group(process.pid)
                process.wait()
        return self._judge(Transfer, time.monotonic() - began)

    def _enqueue(self, model: Any) -> None:
        model.objects.enqueue_many([{} for _ in range(self.options.jobs)])
        self.jobs += self.options.jobs

    def _start(self) -> None:
        command = [sys.executable, "-m", "django", "runworker", "--processes=2", "--threads=2"]
        with Path("worker.log").open("ab") as log:
            environment = os.environ | {"ONCE_READY": "1"}
            self.workers.append(
                subprocess.Popen(command, env=environment, stderr=log, start_new_session=True)
            )

    def _is_done(self, model: Any) -> bool:
        # Three crashes bury a job, and so may a run of bad luck.
        self.kicked += model.objects.buried().kick().changed
        if model.objects.exclude(status=2).exists():
            return False
        if self.kills >= self.options.kills:
            return True
        self._enqueue(model)
        return False

    @property
    def kills(self) -> int:
        return self.faults["children"] + self.faults["groups"]

    def _wait(self) -> None:
        until = time.monotonic() + self.options.every * self.dice.uniform(0.5, 1.5)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))
            self._thaw()

    def _thaw(self) -> None:
        for pid, at in list(self.frozen.items()):
            if time.monotonic() >= at:
                del self.frozen[pid]
                os.killpg(pid, signal.SIGCONT)

    def _do_harm(self) -> None:
        """Kill a child, or a supervisor with its children, or freeze them all."""
        process = self.dice.choice([one for one in self.workers if one.pid not in self.frozen])
        # Who is frozen needs an heir that lives.
        both = ["group", "freeze"] if not self.frozen else []
        what = self.dice.choice(["child", "child", *both])
        if what == "freeze":
            self.frozen[process.pid] = time.monotonic() + FREEZE
            os.killpg(process.pid, signal.SIGSTOP)
            self.faults["freezes"] += 1
        elif what == "group":
            kill_group(process.pid)
            process.wait()
            self.workers.remove(process)
            self._start()
            self.faults["groups"] += 1
        elif pids := children(process.pid):
            os.kill(self.dice.choice(pids), signal.SIGKILL)
            self.faults["children"] += 1

    def _judge(self, model: Any, seconds: float) -> dict[str, Any]:
        from bank.models import Booking

        effects = Counter(Booking.objects.values_list("job", flat=True))
        keys = set(model.objects.values_list("pk", flat=True))
        return {
            "jobs": self.jobs,
            "kills": self.kills,
            "freezes": self.faults["freezes"],
            "runs": Path("starts").stat().st_size,
            "kicked": self.kicked,
            "unfinished": model.objects.exclude(status=2).count(),
            "missing": len(keys - set(effects)),
            "doubled": sum(count > 1 for count in effects.values()),
            "seconds": round(seconds),
        }


def children(pid: int) -> list[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []  # it has ended
    return [int(child) for child in found.split()]


def kill_group(pid: int) -> None:
    """Its children, too: those that run suspects are in groups of their own."""
    forked = children(pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for child in forked:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def is_sqlite(where: str) -> bool:
    return where.startswith("sqlite")


def url_of(where: str, path: Path) -> str:
    if where == "sqlite":
        return f"sqlite:///{path}"
    return where if "://" in where else os.environ[f"DBQUEUE_{where.upper()}_URL"]


@contextmanager
def databases() -> Iterator[None]:
    """Made for this run alone, and dropped."""
    import django

    django.setup()
    from django.db import connections
    from django.test.utils import setup_databases, teardown_databases

    config = setup_databases(verbosity=0, interactive=False)
    try:
        yield
    finally:
        connections.close_all()
        teardown_databases(config, verbosity=0)


def run_route(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        route = Route(options, Path(folder))
        with databases():
            figures = route.run()
        os.chdir(ROOT)
    where = " -> ".join(one.partition(":")[0] for one in (options.queue, options.effects) if one)
    said = ", ".join(f"{value} {name}" for name, value in figures.items())
    print(f"{where}: seed {options.seed}, {said}", flush=True)
    return int(any(figures[name] for name in ("unfinished", "missing", "doubled")))


def run_all(argv: list[str]) -> int:
    codes = []
    for queue, effects in ROUTES:
        where = [f"--queue={queue}", *([f"--effects={effects}"] if effects != queue else [])]
        codes.append(
            subprocess.run([sys.executable, __file__, *argv, *where], check=False).returncode
        )
    return max(codes)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--kills", type=int, default=0, help="at least")
    parser.add_argument("--pause", type=float, default=0.08, help="of a job, at most, twice")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--queue")
    parser.add_argument("--effects")
    parser.add_argument("--without", choices=["fence", "receipt"])
    options = parser.parse_args(argv)
    # So that nothing is left behind then, either.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return run_route(options) if options.queue else run_all(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
