"""Tables of other backends for Django Tasks, filled by their own releases in other processes."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest
from django.db import connection

from tests.kit.processes import ROOT
from tests.kit.warm_processes import run

BEGIN = """
import json
from datetime import timedelta
import django
django.setup()
from django.core.management import call_command
from django.utils import timezone
from tests.tasks import calls
from django_dbqueue.tasks.compat import task_backends
told = {}
"""
END = """
print(json.dumps(told))
"""
# What they run themselves, so that some are finished, some failed, and one runs.
RAN = {
    "django-tasks-db": """
calls.add.enqueue(1, b=2), calls.fail.enqueue()
call_command("db_worker", batch=True, startup_delay=False, interval=0, reload=False, verbosity=0)
from django_tasks_db.models import DBTaskResult
DBTaskResult.objects.get(id=calls.noop.enqueue().id).claim("busy")
""",
    "dj-queue": """
from dj_queue.api import claim_ready_jobs, execute_claimed_job
calls.add.enqueue(1, b=2), calls.fail.enqueue()
for claimed in claim_ready_jobs(limit=2):
    execute_claimed_job(claimed)
calls.noop.enqueue()
assert len(claim_ready_jobs(limit=1)) == 1
""",
}


class OtherBackend:
    """``name`` as ``dbqueue import`` takes it; ``jobs`` is its table of jobs."""

    def __init__(self, name: str, app: str, module: str, jobs: str, payload: str) -> None:
        self.name, self.app, self.module, self.jobs = name, app, module, jobs
        self.payload = payload

    def fill(self, code: str, *, ran: bool = False) -> dict[str, Any]:
        """Run code in a process with this backend; what it put into ``told``."""
        env = os.environ | {
            "DATABASE_URL": address(),
            "DJANGO_SETTINGS_MODULE": f"tests.kit.settings_{self.module}",
            "DBQUEUE_TESTS": "1",
        }
        text = BEGIN + (RAN[self.name] if ran else "") + code + END
        done = run(["-c", text], cwd=ROOT, env=env)
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told

    def count(self) -> int:
        return int(rows(f"SELECT COUNT(*) FROM {self.jobs}")[0][0])

    def empty(self) -> None:
        for name in self.tables():
            rows(f"DELETE FROM {name}")

    def tables(self) -> list[str]:
        """Those that refer to others come first."""
        found = [one for one in connection.introspection.table_names() if one.startswith(self.app)]
        last = {"dj_queue_jobs": 1, "dj_queue_processes": 2}
        return sorted(found, key=lambda one: (last.get(one, 0), one))


BACKENDS = [
    OtherBackend(
        "django-tasks-db",
        *("django_tasks_database", "django_tasks_db"),
        *("django_tasks_database_dbtaskresult", "args_kwargs"),
    ),
    OtherBackend("dj-queue", "dj_queue", "dj_queue", "dj_queue_jobs", "payload"),
]


@contextmanager
def migrated(backend: OtherBackend) -> Iterator[OtherBackend]:
    """The test database with its tables."""
    if find_spec(backend.module) is None:
        pytest.skip(f"{backend.name} is not installed")
    try:
        backend.fill(f'call_command("migrate", "{backend.app}", verbosity=0)')
        yield backend
    finally:
        for name in backend.tables():
            rows(f"DROP TABLE {name}")
        rows("DELETE FROM django_migrations WHERE app = %s", backend.app)


def rows(sql: str, *params: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall()) if cursor.description else []


def address() -> str:
    """Of the test database, for another process."""
    settings = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    url, _, options = os.environ["DATABASE_URL"].partition("?")
    base, _, _ = url.rpartition("/")
    return f"{base}/{settings['NAME']}" + (f"?{options}" if options else "")
