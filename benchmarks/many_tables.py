"""What an idle worker asks a database that has many queue tables, all of them empty.

    python scripts/servers.py run -- python -m benchmarks.many_tables [--only PLACE]... [--tables N]

One worker serves one of them, then another one serves all. Prints the statements that the database
got in a second, and what part of a core the worker took, once everything has been counted for the
first time.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import django
from django.core.management import call_command
from django.db import connection

from benchmarks.contestants import ROOT
from benchmarks.drain import url
from benchmarks.processes import cpu_seconds

PLACES = ("mariadb", "postgresql")
SETTLE, LOOK = 60.0, 300.0  # seconds; the longer one is between two counts of a table with few jobs
MODELS = """
from django_dbqueue.models import Job

for number in range({}):
    name = f"Job{{number}}"
    globals()[name] = type(name, (Job,), {{"__module__": __name__, "run": lambda self: None}})
"""
SETTINGS = """
import dj_database_url

DATABASES = {{"default": dj_database_url.parse({!r})}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_dbqueue", "many"]
SECRET_KEY = "benchmarks"
USE_TZ = True
"""
STATEMENTS = {
    "mysql": "SELECT variable_value FROM information_schema.global_status "
    "WHERE variable_name = 'QUESTIONS'",
    # Nearly each statement of an idle worker is a transaction of its own.
    "postgresql": "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
}


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PLACES)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.inside:
        measure(options.tables)
        return 0
    for place in options.only or PLACES:
        with tempfile.TemporaryDirectory() as folder:
            make_project(Path(folder), url(place, Path(folder)), options.tables)
            env = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}
            command = [sys.executable, "-m", "benchmarks.many_tables", f"--inside={folder}"]
            subprocess.run([*command, f"--tables={options.tables}"], cwd=ROOT, env=env, check=True)
    return 0


def make_project(folder: Path, address: str, tables: int) -> None:
    (folder / "many").mkdir()
    (folder / "many" / "__init__.py").touch()
    (folder / "many" / "models.py").write_text(MODELS.format(tables))
    (folder / "many_settings.py").write_text(SETTINGS.format(address))


def measure(tables: int) -> None:
    """In a process of its own, in the project's environment."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "many_settings"
    django.setup()
    call_command("migrate", run_syncdb=True, verbosity=0)
    for count in (1, tables):
        asked, used = cost_of_worker([f"many.Job{number}" for number in range(count)])
        print(
            f"{connection.vendor:<11} {tables} tables, {count} served: {asked:.1f} statements a "
            f"second, {100 * used:.2f} % of a core",
            flush=True,
        )


def cost_of_worker(served: list[str]) -> list[float]:
    """Statements a second, and the part of a core."""
    command = [sys.executable, "-m", "django", "runworker", "--skip-checks", *served]
    worker = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        time.sleep(SETTLE)
        return rates(statements, lambda: sum(cpu_seconds(worker.pid).values()))
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()


def rates(*counters: Callable[[], float]) -> list[float]:
    """How much each of them grows in a second."""
    before, began = [one() for one in counters], time.monotonic()
    time.sleep(LOOK)
    seconds = time.monotonic() - began
    return [(one() - first) / seconds for one, first in zip(counters, before, strict=True)]


def statements() -> float:
    with connection.cursor() as cursor:
        cursor.execute(STATEMENTS[connection.vendor])
        return float(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
