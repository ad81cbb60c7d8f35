"""Who is measured, and how to talk to a contestant in its own environment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = "dbqueue"


class NoResult(Exception):
    """A drain that does not count, and why."""


@dataclass(frozen=True)
class Contestant:
    """An adapter in one of its modes."""

    label: str
    adapter: str
    mode: str

    @property
    def is_ours(self) -> bool:
        return self.adapter == OURS

    @property
    def python(self) -> str:
        """Of its own environment, which the Makefile has made; ours is the one we run in."""
        if self.is_ours:
            return sys.executable
        folder = Path(os.environ.get("BENCH_PEERS", ROOT / ".venv-peers"))
        return str(folder / self.adapter / "bin" / "python")

    def command(self, verb: str, *arguments: object) -> list[str]:
        call = [self.adapter, self.mode, verb, *map(str, arguments)]
        return [self.python, "-m", "benchmarks.inside", *call]

    def ask(self, env: Mapping[str, str], verb: str, *arguments: object) -> Any:
        """Run a verb to its end; its answer."""
        command = self.command(verb, *arguments)
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise NoResult(f"{self.python} is missing; `make bench-peers` makes it") from error
        if done.returncode:
            raise NoResult(f"{verb} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def start_worker(self, env: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("wb") as file:
            # A session of its own, so that all its processes can be ended together.
            return subprocess.Popen(
                self.command("work"),
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )


CONTESTANTS = (
    Contestant("django-dbqueue, best", OURS, "best"),
    Contestant("django-tasks-db, best", "django_tasks_db", "best"),
    Contestant("django-dbqueue, default", OURS, "default"),
)


def end(worker: "subprocess.Popen[bytes]", patience: float) -> None:
    """Ask the worker to stop; after some patience kill all its processes."""
    worker.terminate()
    try:
        worker.wait(patience)
    except subprocess.TimeoutExpired:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
