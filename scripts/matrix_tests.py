#!/usr/bin/env python3
"""Run the contract suite on each database, one after the other, and print one table.

    matrix_tests.py [--only DATABASE]... [--workers N] [PYTEST ARGUMENTS...]

The contract suite is what jobs, statements and workers promise on a database: the tests of
lifecycle, models, dialects, sweeps and worker that are not of time, and of those that start
processes the first of each file. Other files may be named instead. A database is reached by its
DBQUEUE_..._URL, see scripts/servers.py.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_runs import ROOT, Result, Suite, print_totals, run_pytest, url_variable

NAMES = {"sqlite": "SQLite", "mariadb": "MariaDB", "postgresql": "PostgreSQL", "mysql": "MySQL"}
CONTRACT = tuple(
    f"tests/{name}" for name in ("lifecycle", "models", "dialects", "sweeps", "worker")
)
LEFT_OUT = ("--each-database", "--few-processes", "-m", "not timing")
WORKERS = 3
HEADS = ("Database", "Python", "Django", "passed", "failed", "skipped")


@dataclass(frozen=True)
class Row:
    database: str
    result: Result

    def __str__(self) -> str:
        import django

        counts = (self.result.passed, self.result.failed, self.result.skipped)
        return line(self.database, platform.python_version(), django.get_version(), *counts)


def line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def version(database: str) -> str:
    """What the server itself says, without the packager's part."""
    if database == "sqlite":
        return sqlite3.sqlite_version
    import dj_database_url
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure()
    url = os.environ[url_variable(database)]
    connection = ConnectionHandler({"default": dict(dj_database_url.parse(url))})["default"]
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version" if database == "postgresql" else "SELECT version()")
        said = str(cursor.fetchone()[0])
    connection.close()
    found = re.match(r"\d+(\.\d+)+", said)
    return found[0] if found else said


def tested(database: str, workers: int, arguments: list[str]) -> Row:
    label = f"{NAMES[database]} {version(database)}"
    named = any(Path(ROOT, argument.partition("::")[0]).exists() for argument in arguments)
    spread = ["-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    result = run_pytest(
        Suite(label, database, arguments=LEFT_OUT),
        [*(spread if workers > 1 else []), *arguments, *(() if named else CONTRACT)],
    )
    return Row(label, result.not_empty())


def summarise(rows: list[Row]) -> int:
    """Print the table, and the totals below it; the exit code."""
    print(f"\n{line(*HEADS)}\n|---|---|---|---:|---:|---:|")
    for row in rows:
        print(row)
    notes = [f"{row.database}: {row.result.note}" for row in rows if row.result.note]
    print("\n".join(["", *notes]))
    return print_totals([row.result for row in rows])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Run the contract suite on each database; other arguments are pytest's.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", action="append", default=[], choices=tuple(NAMES))
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes at once")
    options, arguments = parser.parse_known_args(argv)
    given = [name for name in NAMES if name == "sqlite" or os.environ.get(url_variable(name))]
    return summarise([tested(name, options.workers, arguments) for name in options.only or given])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
