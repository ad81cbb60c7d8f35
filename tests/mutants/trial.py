"""One mutant in a copy of the project: the tests run there until one fails."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import count

from tests.mutants.mutant import ROOT

PARTS = ("django_dbqueue", "testproject", "tests", "setup.cfg", "manage.py")
SWEEPS = "tests/sweeps"
TESTS = [
    f"tests/test_{name}.py"
    for name in (
        "finish",
        "complete_in_transaction",
        "results",
        "reap",
        "claim",
        "by_hand",
        "keep",
        "saving",
        "dedup",
        "enqueue",
        "stop_and_go",
        "errors",
        "trouble",
        "beats",
        "rows_by_hand",
        "robust",
        "broken_rows",
        "workers_command",
    )
]
LONGEST = 600  # seconds of one mutant; one that hangs is noticed
CAUGHT, SURVIVED = "caught", "survived"


@dataclass(frozen=True)
class Verdict:
    word: str
    by: str = ""


@cache
def urls():
    """By database that is there its address; SQLite needs none."""
    named = {
        name: os.environ.get(f"DBQUEUE_{name.upper()}_URL") for name in ("mariadb", "postgresql")
    }
    return {"sqlite": None} | {name: url for name, url in named.items() if url}


class Copy:
    """A copy of the project, with databases of its own."""

    def __init__(self, folder, number):
        self.folder, self.number = folder, number
        self.edits = count(1)
        leave = shutil.ignore_patterns("__pycache__")
        folder.mkdir()
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=leave)
            else:
                shutil.copy(ROOT / part, folder / part)

    def judge(self, mutant, tests=None):
        path = self.folder / mutant.path
        before = path.read_text()
        self._write(path, mutant.applied(before))
        try:
            return self.run(mutant.database, tests or mutant.tests or [SWEEPS, *TESTS])
        finally:
            self._write(path, before)

    def _write(self, path, text):
        path.write_text(text)
        # Bytecode is known by second and size: so no two edits may be of the same second.
        os.utime(path, (next(self.edits),) * 2)

    def run(self, database, tests):
        command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self._environment(database),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(CAUGHT, "it hangs")
        return verdict(done.returncode, done.stdout)

    def _environment(self, database):
        env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        env |= {"DBQUEUE_TESTS": "1", "PYTHONPATH": str(self.folder), "TEST_SWEEP_TIMES": "3"}
        if url := urls()[database]:
            address, mark, options = url.partition("?")
            base, _, name = address.rpartition("/")
            env["DATABASE_URL"] = f"{base}/{name}_mutants_{self.number}{mark}{options}"
        return env


def verdict(code, output):
    if code == 0:
        return Verdict(SURVIVED)
    if failed := re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE):
        return Verdict(CAUGHT, failed[1])
    raise RuntimeError(f"the tests could not run:\n{output[-3000:]}")
