#!/usr/bin/env python3
"""Run the test suite once per database and report the counts.

    run_tests.py [--only NAME]... [--jobs N] [PYTEST ARGUMENTS...]

Up to N databases (default: 4) are tested at once, for the tests mostly wait; each one's output is
printed when it ends. With 1 they are tested in turn, undisturbed. Of what was tested beside
others, up to three failures are tested once more, alone: many tests wait for other processes, and a
busy machine may keep them waiting for too long. The last table names them.

NAME: sqlite, mariadb, postgresql, mysql, newest (SQLite on the newest Python and Django found).
Servers are given as DBQUEUE_MARIADB_URL, DBQUEUE_POSTGRESQL_URL (both required, see
scripts/servers.py) and DBQUEUE_MYSQL_URL (optional).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
DATABASES = ("sqlite", "mariadb", "postgresql", "mysql")
REQUIRED = ("mariadb", "postgresql")
PACKAGES = ("django_dbqueue", "testproject", "tests")
NEWEST = "newest"
NEWEST_VENV = ROOT / ".venv-newest"
NEWEST_DJANGO = "Django>=6.1,<6.2"
# They try statements, which no version of Python changes, and take long; of the browser's
# pictures and clicks, one look at each page suffices.
NEWEST_LEAVES_OUT = tuple(
    f"--ignore=tests/{name}"
    for name in (
        *("sweeps", "test_mutants.py", "test_explain.py", "machine", "test_torture.py"),
        *(
            f"browser/test_{name}.py"
            for name in ("canary", "every_action", "watch", "without_scripts")
        ),
    )
)
NEWER_PYTHONS = ((3, 14), (3, 13), (3, 12))
MOST_AGAIN = 3
RUNNING: set[subprocess.Popen[bytes]] = set()
PRINTING = threading.Lock()


@dataclass(frozen=True)
class Result:
    label: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    failures: tuple[str, ...] = ()
    once_more: Callable[[], Result] | None = None

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.label} {self.passed} passed, {self.failed} failed{skipped}{note}"


def url_variable(database: str) -> str:
    return f"DBQUEUE_{database.upper()}_URL"


def environment(database: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    if database != "sqlite":
        env["DATABASE_URL"] = os.environ[url_variable(database)]
    return env | {"DBQUEUE_TESTS": "1"}


def run_pytest(label: str, python: str, database: str, arguments: list[str]) -> Result:
    """Run it; the result knows how to run what failed once more, with the same arguments."""
    cache = ROOT / ".pytest_cache" / re.sub(r"\W+", "-", label)
    own = [*arguments, "-o", f"cache_dir={cache}"]
    result = run_once(label, python, database, [*own, "--cache-clear"])
    failed = last_failed(cache)
    if not 0 < len(failed) == result.failed <= MOST_AGAIN:
        return result
    again = [*own, "--last-failed", "--last-failed-no-failures=none"]
    once_more = partial(run_once, f"{label}, once more", python, database, again)
    return replace(result, failures=failed, once_more=once_more)


def run_once(label: str, python: str, database: str, arguments: list[str]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        report, output = Path(folder) / "report.xml", Path(folder) / "output"
        command = [python, "-m", "pytest", f"--junit-xml={report}", *arguments]
        with output.open("wb") as file:
            code = run(command, environment(database), file)
        with PRINTING:
            print(f"\n== {label}\n{output.read_text(errors='replace')}", flush=True)
        return judge(label, report, code)


def look_again(result: Result) -> Result:
    """Test its failures alone; that they passed then stands in its note."""
    if result.once_more is None:
        return result
    alone = result.once_more()
    if alone.failed or alone.passed != result.failed:
        return result
    note = f"passed only when tested alone: {', '.join(result.failures)}"
    return replace(result, passed=result.passed + alone.passed, failed=0, note=note)


def run(command: list[str], env: dict[str, str], output: IO[bytes]) -> int:
    """Its exit code."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    RUNNING.add(process)
    code = process.wait()
    RUNNING.discard(process)
    return code


def judge(label: str, report: Path, code: int) -> Result:
    """Count from the report; a run that tested nothing, or ended badly, has failed."""
    counts = read_report(report)
    skipped = counts["skipped"]
    failed = counts["failures"] + counts["errors"]
    # A test that fails and whose teardown errs is counted twice among the failures.
    passed = max(0, counts["tests"] - failed - skipped)
    note = ""
    if passed + failed == 0:
        note = f"no test was run, pytest exited with {code}"
    elif code != 0 and failed == 0:
        note = f"pytest exited with {code}"
    return Result(label, passed, failed or int(bool(note)), skipped, note)


def read_report(report: Path) -> dict[str, int]:
    names = ("tests", "failures", "errors", "skipped")
    if not report.exists():
        return dict.fromkeys(names, 0)
    suites = ET.parse(report).getroot().iter("testsuite")
    counts = [{name: int(suite.get(name, 0)) for name in names} for suite in suites]
    return {name: sum(count[name] for count in counts) for name in names}


def last_failed(cache: Path) -> tuple[str, ...]:
    """The failed tests, as pytest remembers them."""
    remembered = cache / "v" / "cache" / "lastfailed"
    return tuple(json.loads(remembered.read_text())) if remembered.exists() else ()


def run_database(database: str, arguments: list[str]) -> Result:
    if database != "sqlite" and not os.environ.get(url_variable(database)):
        note = f"{url_variable(database)} is not set: see scripts/servers.py"
        return Result(database, failed=1, note=note)
    return run_pytest(database, sys.executable, database, arguments)


def wanted_databases(only: list[str]) -> list[str]:
    if only:
        return [name for name in DATABASES if name in only]
    return [name for name in DATABASES if name != "mysql" or os.environ.get(url_variable(name))]


def python_candidates() -> Iterator[tuple[tuple[int, int], str]]:
    """Newer Pythons, the newest first, on the PATH and among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for version in NEWER_PYTHONS:
        if version <= sys.version_info[:2]:
            continue
        name = f"python{version[0]}.{version[1]}"
        on_path = shutil.which(name)
        if on_path:
            yield version, on_path
        for found in sorted(pyenv.glob(f"*/bin/{name}"), reverse=True):
            yield version, str(found)


def really_starts(python: str) -> bool:
    """A shim may exist without its Python, and a Python without the modules that we need."""
    modules = "import ensurepip, sqlite3, ssl, venv"
    try:
        done = subprocess.run([python, "-c", modules], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def venv_with(folder: Path, python: str, django: str) -> str:
    """The Python of a virtual environment with this Django; kept until setup.cfg changes."""
    own_python = folder / "bin" / "python"
    stamp = folder / "stamp"
    wanted = hashlib.sha256(
        f"{python} {django} {(ROOT / 'setup.cfg').read_text()}".encode()
    ).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        install = [str(own_python), "-m", "pip", "install", "-q", "-e", ".[test]", django]
        subprocess.run(install, cwd=ROOT, check=True)
        stamp.write_text(wanted)
    return str(own_python)


def run_newest(arguments: list[str]) -> Result | None:
    found = next((pair for pair in python_candidates() if really_starts(pair[1])), None)
    if found is None:
        return None
    (major, minor), python = found
    django = re.sub(r"[^\d.].*", "", NEWEST_DJANGO.partition(">=")[2])
    label = f"sqlite (Python {major}.{minor}, Django {django})"
    try:
        own_python = venv_with(NEWEST_VENV, python, NEWEST_DJANGO)
    except subprocess.CalledProcessError as error:
        return Result(label, failed=1, note=f"{error.cmd[2]} exited with {error.returncode}")
    compile_packages(own_python)
    return run_pytest(label, own_python, "sqlite", [*arguments, *NEWEST_LEAVES_OUT])


def compile_packages(python: str) -> None:
    """Else each of the many workers does it, where Python is told to keep no bytecode."""
    subprocess.run([python, "-m", "compileall", "-q", *PACKAGES], cwd=ROOT, check=True)


def run_all(only: list[str], jobs: int, arguments: list[str]) -> list[Result]:
    compile_packages(sys.executable)
    runs: list[Callable[[], Result | None]] = [
        partial(run_database, name, arguments) for name in wanted_databases(only)
    ]
    if not only or NEWEST in only:
        runs.append(partial(run_newest, arguments))
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda run: run(), runs))
    if None in results:
        print("\nno Python newer than the running one was found: Django 6.1 not tested apart")
    found = [result for result in results if result]
    return [look_again(result) for result in found] if jobs > 1 else found


def summarise(results: list[Result]) -> int:
    """Print the table; its last line is the totals, for whoever reads only that."""
    print("\ntests per database:")
    for result in results:
        print(f"  {result}")
    passed = sum(result.passed for result in results)
    failed = sum(result.failed for result in results)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def on_terminate(signum: int, _frame: object) -> None:
    # The threads print what there is, and remove their files.
    for process in set(RUNNING):
        process.terminate()
    raise SystemExit(128 + signum)


def main(argv: list[str]) -> int:
    signal.signal(signal.SIGTERM, on_terminate)
    parser = argparse.ArgumentParser(
        description="Run the test suite once per database; other arguments are pytest's."
    )
    parser.add_argument("--only", action="append", default=[], choices=(*DATABASES, NEWEST))
    parser.add_argument("--jobs", type=int, default=4)
    options, arguments = parser.parse_known_args(argv)
    return summarise(run_all(options.only, options.jobs, arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
