"""What is measured of this library besides the drain: each file asks one question."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.adapters import URL_VARIABLE
from benchmarks.contestants import OURS, ROOT, SQL, Contestant, NoResult, end
from benchmarks.marks import VARIABLE, Marks

END = 40.0  # seconds for a worker to stop
DEADLINE = 120.0  # seconds


@dataclass(frozen=True)
class Figure:
    """One number with its unit, and what it should be at most or at least, if that is said."""

    place: str
    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return "" if self.at_least is None else f"≥ {self.at_least:g}"

    @property
    def is_met(self) -> bool | None:
        """None without a target."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least


@dataclass(frozen=True)
class Place:
    """A database, and a folder for files."""

    name: str
    url: str
    folder: Path
    adapter: str = OURS
    module: str = "benchmarks.measures.inside"

    @property
    def marks(self) -> Path:
        return self.folder / "marks"

    @property
    def env(self) -> dict[str, str]:
        return os.environ | {URL_VARIABLE: self.url, VARIABLE: str(self.marks)}

    def contestant(self, mode: str) -> Contestant:
        return replace(ours(mode), adapter=self.adapter)

    def ask(self, mode: str, verb: str, *arguments: object, **extra: str) -> Any:
        """What a process of our own, ``module``, answers."""
        words = [mode, verb, *map(str, arguments)]
        done = subprocess.run(
            [sys.executable, "-m", self.module, *words],
            cwd=ROOT,
            env=self.env | extra,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise NoResult(f"{verb} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def new_marks(self, jobs: int) -> Marks:
        return Marks.create(self.marks, jobs)

    @contextmanager
    def worker(self, mode: str, env: Mapping[str, str] | None = None) -> Iterator[int]:
        """A worker in some mode, its pid, which is its session too."""
        log = self.folder / "worker.log"
        process = self.contestant(mode).start(self.env | dict(env or {}), log, "work")
        try:
            yield process.pid
            if process.poll() is not None:
                raise NoResult(f"the worker ended:\n{log.read_text(errors='replace')[-2000:]}")
        finally:
            end(process, END)


def ours(mode: str) -> Contestant:
    return Contestant("django-dbqueue", mode, OURS, SQL, 0)


def wait_for(marks: Marks, jobs: int) -> None:
    """Until so many jobs have run."""
    deadline = time.monotonic() + DEADLINE
    while marks.started < jobs:
        if time.monotonic() > deadline:
            raise NoResult(f"{marks.started} of {jobs} jobs ran within {DEADLINE:g} s")
        time.sleep(0.02)
