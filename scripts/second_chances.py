"""Tests of time that failed are tried again: five times each, and each occurrence is on record.

They measure time against other processes, so a busy machine may fail them. One that passes five
times next to a busy loop had bad luck, once: its name goes into a file of the repository, and a
test whose name stands there gets no second chance, until somebody mends it and takes out its line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime

from pytest_runs import ROOT, Result, Suite, run_pytest, started

TRIES = 5
RECORD = ROOT / "tests" / "timing-failures.txt"
Try = Callable[[Iterable[str]], Result]


def second_chance(suite: Suite, result: Result, arguments: list[str]) -> Result:
    """The result with its failures tried again, as far as they may be."""
    on_record = recorded()
    unlucky = {name for name in result.failures if name not in on_record}
    if len(result.failures) != result.failed:
        return result
    for number in range(1, TRIES + 1):
        if unlucky:
            unlucky -= failed_again(suite, arguments, unlucky, number)
    return forgiven(suite.database, result, sorted(unlucky))


def failed_again(suite: Suite, arguments: list[str], names: set[str], number: int) -> set[str]:
    label = f"{suite.label}, try {number} of {TRIES} next to a busy loop"
    with busy_loop():
        again = run_pytest(replace(suite, label=label), arguments, only=names)
    is_sound = again.passed + len(again.failures) == len(names)
    return names & set(again.failures) if is_sound else names


def busy_loop() -> AbstractContextManager[subprocess.Popen[bytes]]:
    return started([sys.executable, "-c", "while True: pass"])


def forgiven(database: str, result: Result, names: list[str]) -> Result:
    """The result in which these tests have passed; they are on record from now on."""
    if not names:
        return result
    record(database, names)
    place = RECORD.relative_to(ROOT)
    note = f"failed once, then passed {TRIES} times, see {place}: {', '.join(names)}"
    kept = tuple(name for name in result.failures if name not in names)
    passed, failed = result.passed + len(names), result.failed - len(names)
    return replace(result, passed=passed, failed=failed, note=note, failures=kept)


def recorded() -> set[str]:
    """The tests that have had their second chance."""
    text = RECORD.read_text() if RECORD.exists() else ""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split(maxsplit=3)[-1] for line in lines}


def record(database: str, names: Iterable[str]) -> None:
    day = datetime.now(UTC).date()
    with RECORD.open("a") as file:
        for name in names:
            file.write(f"{day} {commit()} {database} {name}\n")


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
