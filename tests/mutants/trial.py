"""One mutant in a copy of the project: its tests run there until one fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from testproject.settings import sqlite_test_name
from tests.mutants.mutant import ROOT
from tests.mutants.plugin import CHOSEN, LINES, RESULT

PARTS = ("django_dbqueue", "testproject", "tests", "scripts", "docs", "setup.cfg", "manage.py")
# Those left out take time to import, and nobody looks at what they do.
PLUGINS = ("tests.mutants.plugin", "no:cacheprovider", "no:hypothesispytest", "no:xdist")
# The one would hinder that modules are compiled once, the others are set here.
LEFT_OUT = ("PYTHONDONTWRITEBYTECODE", "DATABASE_URL", "PYTEST_ADDOPTS")
MAKE_DATABASE = """
import django, pytest
django.setup()
from django.db import connection
connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
connection.close()
"""
CAUGHT, SURVIVED = "caught", "survived"
HANGS = "it hangs"


@dataclass(frozen=True)
class Verdict:
    word: str
    by: str = ""


@dataclass(frozen=True)
class Step:
    """Tests that are run together, in this order, and how long they may take."""

    tests: list[str]
    seconds: float
    # Whether they may fail for other reasons than a mutant: then they have to fail twice.
    are_shaky: bool = False
    # Whether each is run at its full length.
    is_full: bool = False


class Interrupted(Exception):
    """The whole run ends: what became of this trial says nothing."""


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
        self.output = folder / "output"
        self.process = None
        self.is_ended = False
        # Where SQLite's test database is, and one that no test has seen.
        self.database = Path(sqlite_test_name(folder))
        self.untouched = folder / "untouched.sqlite3"
        leave = shutil.ignore_patterns("__pycache__")
        folder.mkdir()
        for part in PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, ignore=leave)
            else:
                shutil.copy(ROOT / part, folder / part)

    def judge(self, mutant, steps):
        """Run the tests until one fails; to take too long is to fail, too."""
        path = self.folder / mutant.path
        before = path.read_text()
        self._write(path, mutant.applied(before))
        try:
            found = (self._failed(mutant.database, step) for step in steps)
            by = next(filter(None, found), None)
        except subprocess.TimeoutExpired:
            by = HANGS
        finally:
            self._write(path, before)
        return Verdict(CAUGHT, by) if by else Verdict(SURVIVED)

    def _write(self, path, text):
        path.write_text(text)
        # Bytecode is known by second and size: so no two edits may be of the same second.
        os.utime(path, (next(self.edits),) * 2)

    def _failed(self, database, step):
        """The first test that fails, if one does."""
        tests = step.tests
        while tests and self._run_some(database, tests, step):
            by = next(iter(self.result()["failed"]), None)
            if by is None:
                raise RuntimeError(self.said())
            is_sure = not step.are_shaky or by not in tests
            if is_sure or self._run_some(database, [by], step):
                return by
            tests = tests[tests.index(by) + 1 :]
        return None

    def _run_some(self, database, tests, step):
        (self.folder / CHOSEN).write_text(json.dumps(tests))
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        length = ["--full"] if step.is_full else []
        return self.run(database, ["-x", *length, *files], step.seconds)

    def measure(self, database, files, seconds):
        """Run all tests of these files, and note which lines they reach."""
        (self.folder / CHOSEN).unlink(missing_ok=True)
        self.run(database, files, seconds, **{LINES: "1"})

    def result(self):
        """What the plugin has written in the last run."""
        path = self.folder / RESULT
        nothing = {"items": {}, "files": [], "failed": []}
        return json.loads(path.read_text()) if path.exists() else nothing

    def said(self):
        return self.output.read_text(errors="replace")[-3000:]

    def run(self, database, arguments, seconds, **environment):
        """pytest's exit code; what it says is in ``output``."""
        command = [sys.executable, "-m", "pytest", *(f"-p{name}" for name in PLUGINS)]
        if database == "sqlite":
            command += ["--reuse-db"]
            self._put_untouched_database()
        (self.folder / RESULT).unlink(missing_ok=True)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *arguments],
                cwd=self.folder,
                env=self._environment(database) | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            code = self.process.wait(seconds)
        finally:
            self._end_what_is_left()
        if self.is_ended:
            raise Interrupted
        return code

    def _put_untouched_database(self):
        self.remove_database()
        if not self.untouched.exists():
            self._make_database()
        shutil.copy(self.untouched, self.database)

    def _make_database(self):
        subprocess.run(
            [sys.executable, "-c", MAKE_DATABASE],
            cwd=self.folder,
            env=self._environment("sqlite") | {"DJANGO_SETTINGS_MODULE": "testproject.settings"},
            check=True,
        )
        shutil.move(self.database, self.untouched)
        self.remove_database()

    def remove_database(self):
        for end in ("", "-wal", "-shm", "-journal"):
            Path(f"{self.database}{end}").unlink(missing_ok=True)

    def end(self):
        """From another thread: whatever runs here, it is over."""
        self.is_ended = True
        if self.process is not None:
            self.process.kill()

    def _end_what_is_left(self):
        """Workers of a test that was ended are in sessions of their own, and would go on."""
        self.process.kill()
        self.process.wait()
        mark = f"PYTHONPATH={self.folder}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def _environment(self, database):
        env = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        env |= {"DBQUEUE_TESTS": "1", "PYTHONPATH": str(self.folder), "TEST_SWEEP_TIMES": "3"}
        if url := urls()[database]:
            address, mark, options = url.partition("?")
            base, _, name = address.rpartition("/")
            env["DATABASE_URL"] = f"{base}/{name}_mutants_{self.number}{mark}{options}"
        return env
