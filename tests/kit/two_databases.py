"""A small project with two databases: the one under test and a SQLite file, a router between."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from tests.kit.waiting import wait_until
from tests.kit.warm_processes import Warm, run

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = """
from testproject import settings as base
DATABASES = {
    **base.DATABASES,
    "aside": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "aside.sqlite3",
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 5,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DATABASE_ROUTERS = ["two_router.Router"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "for-a-test"
USE_TZ = True
INSTALLED_APPS = ["django_dbqueue", "near", "far"]
"""

ROUTER = """
class Router:
    def db_for_read(self, model, **hints):
        return "aside" if model._meta.app_label == "far" else None
    db_for_write = db_for_read
    def allow_migrate(self, db, app_label, **hints):
        return app_label != "far" or db == "aside"
"""

MODELS = """
import os, time
from django.db import models
from django_dbqueue.backoff import Fixed
from django_dbqueue.models import Job

class {name}(Job):
    seconds = models.FloatField(default=0)
    fails = models.BooleanField(default=False)
    class Meta(Job.Meta):
        pass
    class Policy:
        backoff = Fixed(0.2)
        max_attempts = 3
    def run(self):
        time.sleep(self.seconds)
        if self.fails and self.attempts == 1:
            raise RuntimeError("the first time it fails")
"""

MIGRATE = """
import importlib
import django
from django.core.management import call_command
django.setup()
call_command("makemigrations", "near", "far", "-v0")
importlib.invalidate_caches()
for alias in ("default", "aside"):
    call_command("migrate", "-v0", database=alias)
"""

FAST = {
    "DBQUEUE_BEAT_INTERVAL": "0.2",
    "DBQUEUE_WORKER_TIMEOUT": "1",
    "DBQUEUE_REAP_INTERVAL": "0.2",
}


class LoggedWorker(Warm):
    log: Path


class Two:
    """A project with the queue tables near.Near on ``default`` and far.Far on ``aside``, where a
    table of near.Near is, too, that the router never names."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.default = connection.copy()
        self.default.settings_dict = connection.settings_dict | {"NAME": name_in(url)}
        (folder / "two_router.py").write_text(ROUTER)
        (folder / "two_settings.py").write_text(SETTINGS)
        for name in ("near", "far"):
            (folder / name / "migrations").mkdir(parents=True)
            (folder / name / "__init__.py").touch()
            (folder / name / "migrations" / "__init__.py").touch()
            (folder / name / "models.py").write_text(MODELS.format(name=name.capitalize()))
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "two_settings",
            "DATABASE_URL": url,
            "DEBUG": "0",
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        }
        self.workers: list[LoggedWorker] = []
        self._run("-c", MIGRATE)

    def manage(self, *args: str, code: int = 0) -> str:
        return self._run("-m", "django", *args, code=code)

    def shell(self, text: str) -> str:
        """Run Python code; what it printed, as JSON."""
        setup = "import django, json\ndjango.setup()\nfrom near.models import Near\n"
        setup += "from far.models import Far\nfrom django_dbqueue.models import Worker, Queue\n"
        return self._run("-c", setup + text)

    def _run(self, *args: str, code: int = 0) -> str:
        done = run([*args], cwd=self.folder, env=self.environment)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def worker(self, *args: str, waits: bool = True, **environment: str) -> LoggedWorker:
        """``waits`` until it lives on one of them."""
        log = (self.folder / f"worker{len(self.workers)}.log").open("w+")
        process = LoggedWorker(
            ["-m", "django", "runworker", *args],
            cwd=self.folder,
            env=self.environment | FAST | environment,
            stderr=log,
        )
        process.log = Path(log.name)
        self.workers.append(process)
        wait_until(lambda: not waits or self.living() or process.poll() is not None)
        return process

    def living(self) -> list[str]:
        """The aliases whose tables show a living worker."""
        sql = "SELECT COUNT(*) FROM dbqueue_worker WHERE stopped_at IS NULL"
        return [alias for alias in ("default", "aside") if self.ask(alias, sql)[0][0]]

    def ask(self, alias: str, sql: str) -> list[tuple[Any, ...]]:
        if alias == "default":
            with self.default.cursor() as cursor:
                cursor.execute(sql)
                return list(cursor.fetchall())
        with closing(sqlite3.connect(self.folder / "aside.sqlite3", timeout=10)) as other:
            return other.execute(sql).fetchall()

    @contextmanager
    def aside_locked(self) -> Iterator[None]:
        with closing(sqlite3.connect(self.folder / "aside.sqlite3", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            yield
            lock.execute("ROLLBACK")

    def states(self) -> dict[str, list[tuple[Any, ...]]]:
        """Both tables' rows: (status, attempts)."""
        return {
            name: sorted(self.ask(alias, f"SELECT status, attempts FROM {name}_{name}"))
            for alias, name in (("default", "near"), ("aside", "far"))
        }

    def all_done(self, count: int) -> bool:
        return all([s for s, _ in rows] == [2] * count for rows in self.states().values())

    def end(self) -> None:
        for process in self.workers:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def name_in(url: str) -> str:
    name = url.partition("?")[0].rpartition("/")[2]
    return url.partition("sqlite:///")[2] or name
