"""Runs of pytest on one database each, and what their reports say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from folders import in_memory

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS = 5  # pytest's exit code
# A test that takes longer hangs: the run ends with the stacks of its threads.
HANGS = ("-ofaulthandler_timeout=600", "-ofaulthandler_exit_on_timeout=true")
# Where pytest's cache keeps the tests that failed last.
LAST_FAILED = Path("v/cache/lastfailed")
RUNNING: set[subprocess.Popen[Any]] = set()
PRINTING = threading.Lock()


@dataclass(frozen=True)
class Suite:
    """The tests on one database under one Python, with arguments of their own for pytest."""

    label: str
    database: str = "sqlite"
    python: str = sys.executable
    arguments: tuple[str, ...] = ()
    marks: str = ""
    # By which module pytest is run.
    under: tuple[str, ...] = ()
    # Whether it has tests of time, too.
    has_timing: bool = True
    # Whether it is to run on the newest Python that is found.
    is_on_newest: bool = False


@dataclass(frozen=True)
class Result:
    label: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    note: str = ""
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.label} {self.passed} passed, {self.failed} failed{skipped}{note}"

    def __add__(self, other: Result) -> Result:
        return Result(
            self.label,
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
            "; ".join(filter(None, [self.note, other.note])),
            self.failures + other.failures,
        )

    def not_empty(self) -> Result:
        """A run that tested nothing has failed."""
        if self.passed or self.failed:
            return self
        return replace(self, failed=1, note="no test was run")


def url_variable(database: str) -> str:
    return f"DBQUEUE_{database.upper()}_URL"


def environment(database: str) -> dict[str, str]:
    # What one run compiles, pytest's own form of the tests as well, the next one need not.
    not_ours = {"DATABASE_URL", "PYTHONDONTWRITEBYTECODE"}
    env = {name: value for name, value in os.environ.items() if name not in not_ours}
    if database != "sqlite":
        env["DATABASE_URL"] = os.environ[url_variable(database)]
    return env | {"DBQUEUE_TESTS": "1"}


def run_pytest(suite: Suite, arguments: Sequence[str], only: Iterable[str] = ()) -> Result:
    """Run the suite's tests, or of those only the ones with these ids; print what pytest says."""
    place = None if "--full" in arguments else in_memory(executes=True)
    with tempfile.TemporaryDirectory(dir=place) as name:
        folder = Path(name)
        report, output, failed = folder / "report.xml", folder / "output", folder / LAST_FAILED
        command = [suite.python, *suite.under, "-m", "pytest"]
        command += [f"--junit-xml={report}", f"-ocache_dir={folder}"]
        if only:
            failed.parent.mkdir(parents=True)
            failed.write_text(json.dumps(dict.fromkeys(only, True)))
            command += ["--last-failed", "--last-failed-no-failures=none"]
        if "--full" not in arguments:
            command += HANGS
        env = environment(suite.database) | ({"TMPDIR": name} if place else {})
        with output.open("wb") as file:
            own = [*command, *suite.arguments, *arguments]
            code = run(own, env, file)
        with PRINTING:
            print(f"\n== {suite.label}\n{output.read_text(errors='replace')}", flush=True)
        failures = tuple(json.loads(failed.read_text())) if failed.exists() else ()
        return replace(judge(suite.label, report, code), failures=failures)


def run(command: list[str], env: dict[str, str], output: IO[bytes]) -> int:
    """Its exit code."""
    with started(command, env=env, stdout=output, stderr=subprocess.STDOUT) as process:
        return process.wait()


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with us, too."""
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, **options)
    RUNNING.add(process)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        RUNNING.discard(process)


def judge(label: str, report: Path, code: int) -> Result:
    """Count from the report; a run that ended badly has failed."""
    counts = read_report(report)
    skipped = counts["skipped"]
    failed = counts["failures"] + counts["errors"]
    # A test that fails and whose teardown errs is counted twice among the failures.
    passed = max(0, counts["tests"] - failed - skipped)
    if code not in (0, NO_TESTS) and not failed:
        return Result(label, passed, 1, skipped, f"pytest exited with {code}")
    return Result(label, passed, failed, skipped)


def read_report(report: Path) -> dict[str, int]:
    names = ("tests", "failures", "errors", "skipped")
    if not report.exists():
        return dict.fromkeys(names, 0)
    suites = ET.parse(report).getroot().iter("testsuite")
    counts = [{name: int(suite.get(name, 0)) for name in names} for suite in suites]
    return {name: sum(count[name] for count in counts) for name in names}


def print_totals(results: Sequence[Result]) -> int:
    """In one line, which is the last of a run; the exit code."""
    passed = sum(result.passed for result in results)
    failed = sum(result.failed for result in results)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0
