#!/usr/bin/env python3
"""Run the test suite once per database and report the counts.

    run_tests.py [--only NAME]... [--jobs N] [--workers N] [--turn N] [--coverage]
                 [PYTEST ARGUMENTS...]

Up to N databases are tested at once, each by so many workers, for the tests mostly wait; the next
one begins when one of them ends, and the output of each is printed then. The tests marked `timing`
come last, of all databases at once, next to nothing else. They alone are tried again when they
fail, see second_chances.py; the last table names them. What does not depend on the database runs on
SQLite alone. A run of all databases has PostgreSQL's tests on the newest Python and Django found,
and gives each test of processes or pages to one of three databases, to the next with each commit,
or with --turn N.

NAME: sqlite, mariadb, postgresql, mysql, newest (SQLite on the newest Python and Django found).
Servers are given as DBQUEUE_MARIADB_URL, DBQUEUE_POSTGRESQL_URL (both required, see
scripts/servers.py) and DBQUEUE_MYSQL_URL (if it is missing, the run says so). MySQL has
the tests that need no other process, and one of each file that do; all, if --only names it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import newest_python
from pytest_runs import (
    ROOT,
    RUNNING,
    Result,
    Suite,
    environment,
    print_totals,
    run_pytest,
    url_variable,
)
from second_chances import second_chance

DATABASES = ("mariadb", "postgresql", "mysql", "sqlite")
REQUIRED = ("sqlite", "mariadb", "postgresql")
NEWEST = "newest"
# The longest are first, and those that need the newest Python come when it is there.
ORDER = ("mariadb", "sqlite", "postgresql", "mysql", NEWEST)
# Whose tests are those of the newest Python, so that SQLite there has only what they leave out.
ON_NEWEST = "postgresql"
JOBS = 3  # databases at once
WORKERS = 2  # processes for each,
MOST_WORKERS = {"sqlite": 3}  # unless it has more to do than the others
PACKAGES = ("django_dbqueue", "testproject", "tests")
REWRITTEN = r"/(test_[^/]*|conftest)\.py$"  # by pytest, as it collects
# The three have all tests of processes, and those marked `one_database`, between them, unless
# somebody asks for one of them, or for proofs: what a database does to a worker is marked, and runs
# on each.
SHARES = {"sqlite": "--share=1/3", "mariadb": "--share=2/3", "postgresql": "--share=3/3"}
# They take long, and MySQL's statements are MariaDB's.
LONG = ("sweeps", "machine", "torture/test_torture.py")
SHORT = ("--few-processes", *(f"--ignore=tests/{path}" for path in LONG))
# What a newer Python or Django does not change: what our statements do at each of their places, and
# with any row and value; and the tools of the tests themselves.
NEWEST_LEAVES_OUT = (
    *("sweeps", "machine", "fuzz", "mutants", "tools", "torture"),
    *("dialects/test_query_plans.py", "dialects/test_clocks.py", "dialects/test_in_lists.py"),
    *("lifecycle/test_rows_by_hand.py", "lifecycle/test_broken_rows.py", "diagnose/test_check.py"),
    *("lifecycle/test_key_plans.py", "admin/test_lists.py"),
    *("lifecycle/test_stress.py", "lifecycle/test_growth.py", "worker/test_outages_sqlite.py"),
    "models/test_exactly_once_kills.py",
)


def suite_of(name: str) -> Suite:
    if name == NEWEST:
        left_out = [f"--ignore-glob=tests/{path}" for path in NEWEST_LEAVES_OUT]
        arguments = ("--few-processes", *left_out)
        marks = "not any_database and not one_database"
        return Suite(name, arguments=arguments, marks=marks, has_timing=False, is_on_newest=True)
    return Suite(name, name, arguments=() if name == "sqlite" else ("--each-database",))


def untested(only: list[str]) -> list[str]:
    """The databases that nobody left out, and that have no server."""
    optional = [] if only else [name for name in DATABASES if name not in REQUIRED]
    return [name for name in optional if not os.environ.get(url_variable(name))]


def wanted(only: list[str], turn: int | None = None) -> list[Suite]:
    """``turn``: None where nothing is shared out."""
    found = [name for name in DATABASES if name not in untested([])]
    suites = [suite_of(name) for name in ORDER if name in (only or [*found, NEWEST])]
    return suites if turn is None else [with_its_share(one, turn) for one in suites]


def has_shares(options: argparse.Namespace, arguments: list[str]) -> bool:
    return not (options.only or "--full" in arguments)


def number_of_commits() -> int:
    """0 where this is no checkout of git, or git is not there."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return 0
    return int(found.stdout or 0)


def with_its_share(suite: Suite, turn: int) -> Suite:
    if suite.label == "mysql":
        return replace(suite, arguments=(*suite.arguments, *SHORT), has_timing=False)
    if suite.label == NEWEST:
        beyond = "--each-database", SHARES[ON_NEWEST], f"--turn={turn}", "--the-rest"
        return replace(suite, arguments=(*suite.arguments, *beyond))
    own = (*suite.arguments, SHARES[suite.label], f"--turn={turn}")
    return replace(suite, arguments=own, is_on_newest=suite.label == ON_NEWEST)


def run_most(
    suite: Suite,
    options: argparse.Namespace,
    arguments: list[str],
    newest: Future[Newest | None] | None,
) -> Result | None:
    """All but what measures time; None for the tests of SQLite on a newer Python without one."""
    if newest is not None and suite.is_on_newest:
        try:
            found = newest.result()
        except subprocess.CalledProcessError as error:
            note = f"{error.cmd[2]} exited with {error.returncode}"
            return Result(suite.label, failed=1, note=note)
        if found is None and suite.label == NEWEST:
            return None
        suite = found.with_its_python(suite) if found else suite
    variable = url_variable(suite.database)
    if suite.database != "sqlite" and not os.environ.get(variable):
        return Result(suite.label, failed=1, note=f"{variable} is not set: see scripts/servers.py")
    return run_pytest(suite, [*arguments, *untimed(suite, options)])


def untimed(suite: Suite, options: argparse.Namespace) -> list[str]:
    number = options.workers or MOST_WORKERS.get(suite.label, WORKERS)
    # In the tests' own order, in which the slowest files come first.
    by_file = ["--dist", "loadfile", "--no-loadscope-reorder"]
    workers = ["-n", str(number), *by_file] if number > 1 else []
    return [*workers, *marked(options.marks, suite.marks, "not timing")]


def marked(*expressions: str) -> list[str]:
    return ["-m", " and ".join(f"({one})" for one in expressions if one)]


@dataclass(frozen=True)
class Newest:
    """Versions in words, and a Python that has them."""

    versions: str
    python: str

    def with_its_python(self, suite: Suite) -> Suite:
        return replace(suite, label=f"{suite.database} ({self.versions})", python=self.python)


def prepared_newest(arguments: list[str]) -> Newest | None:
    """An environment of its own, which takes a while; None without such a Python."""
    if (found := newest_python.newest_python()) is None:
        return None
    versions, newer = found
    python = newest_python.venv_with(newest_python.VENV, newer, newest_python.DJANGO)
    compile_all(Suite(NEWEST, python=python), arguments)
    return Newest(versions, python)


def compile_all(suite: Suite, arguments: list[str]) -> None:
    """Compile the package and the tests, as pytest rewrites them: else each process does it."""
    compile_plain = ["-m", "compileall", "-q", "-x", REWRITTEN, *PACKAGES]
    subprocess.run([suite.python, *compile_plain], cwd=ROOT, check=True)
    subprocess.run(
        [suite.python, "-m", "pytest", "--collect-only", *suite.arguments, *arguments],
        cwd=ROOT,
        env=environment("sqlite"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,  # what is wrong is told by the run itself
    )


def add_tests_of_time(
    ran: dict[Suite, Result], options: argparse.Namespace, arguments: list[str]
) -> list[Result]:
    """The results with those of the tests of time, for the databases whose first part could run."""
    own = [*arguments, "--files-naming=timing", *marked(options.marks, "timing")]
    alone = {
        suite: replace(suite, label=f"{suite.label}, tests of time")
        for suite, result in ran.items()
        if suite.has_timing and not result.note
    }
    # They mostly wait, and so do not disturb each other: all databases are tested at once.
    with ThreadPoolExecutor(len(alone) or 1) as pool:
        timed = list(pool.map(partial(run_pytest, arguments=own), alone.values()))
    for (suite, timing), result in zip(alone.items(), timed, strict=True):
        # A proof at its full length is for people to look at.
        final = result if "--full" in arguments else second_chance(timing, result, own)
        ran = {**ran, suite: ran[suite] + final}
    # Of what somebody asked for, a database may have nothing to test.
    asked = bool(arguments or options.marks)
    return [result if asked else result.not_empty() for result in ran.values()]


def run_all(options: argparse.Namespace, arguments: list[str]) -> list[Result]:
    turn = options.turn
    if turn is None and has_shares(options, arguments):
        turn = number_of_commits()
    suites = wanted(options.only, turn)
    if options.coverage:
        suites = [replace(suite, under=("-m", "coverage", "run")) for suite in suites]
    with ThreadPoolExecutor(options.jobs) as pool, ThreadPoolExecutor(1) as meanwhile:
        is_wanted = any(suite.is_on_newest for suite in suites)
        made = meanwhile.submit(prepared_newest, arguments) if is_wanted else None
        compile_all(Suite("all"), arguments)
        run = partial(run_most, options=options, arguments=arguments, newest=made)
        first = list(pool.map(run, suites))
    if None in first:
        print("\nno Python newer than the running one was found: Django 6.1 not tested apart")
    for name in untested(options.only):
        print(f"\n{url_variable(name)} is not set: {name} not tested")
    if turn is not None:
        print(f"\ntests of one database were shared out by --turn {turn % len(SHARES)}")
    ran = {suite: result for suite, result in zip(suites, first, strict=True) if result}
    return add_tests_of_time(ran, options, arguments)


def summarise(results: list[Result]) -> int:
    """Print the table, and the totals below it; the exit code."""
    print("\ntests per database:")
    for result in results:
        print(f"  {result}")
    return print_totals(results)


def on_terminate(signum: int, _frame: object) -> None:
    # The threads print what there is, and remove their files.
    for process in set(RUNNING):
        process.terminate()
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Run the test suite once per database; other arguments are pytest's.",
        allow_abbrev=False,
    )
    parser.add_argument("--only", action="append", default=[], choices=(*DATABASES, NEWEST))
    parser.add_argument("--jobs", type=int, default=JOBS, help="databases at once")
    parser.add_argument("--workers", type=int, help="processes for each database")
    parser.add_argument(
        "--turn", type=int, help="of what one of three databases runs, other thirds than by commit"
    )
    parser.add_argument("--coverage", action="store_true", help="measure it; combine it yourself")
    parser.add_argument("-m", dest="marks", default="", help="only tests with such marks")
    options, arguments = parser.parse_known_args(argv)
    if options.turn is not None and not has_shares(options, arguments):
        parser.error("--turn: with --only or --full each database runs all of its tests")
    signal.signal(signal.SIGTERM, on_terminate)
    return summarise(run_all(options, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
