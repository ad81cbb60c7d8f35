"""What is tried again, and what is not; and what the last table says. With real runs of pytest."""

import os
import shutil
import subprocess
import sys

import pytest
import run_tests
from run_tests import main, number_of_commits, untested, wanted

from tests.kit.processes import ROOT

pytestmark = pytest.mark.process
SETTINGS = """
[tool:pytest]
addopts = -q --strict-markers
markers =
    any_database
    timing
"""
CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--each-database", action="store_true")
    parser.addoption("--files-naming")
"""
NONE_ON_MARIADB = """
def pytest_collection_modifyitems(config, items):
    if config.getoption("--each-database"):
        items.clear()
"""
# Each test notes its run, and whether a busy loop runs meanwhile, and fails in the runs named.
SUITE = """
import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

def busy_loops():
    # Those of the process that started us.
    threads = Path(f"/proc/{{os.getppid()}}/task").iterdir()
    pids = [pid for thread in threads for pid in (thread / "children").read_text().split()]
    return sum(b"while True: pass" in command_of(pid) for pid in pids)

def command_of(pid):
    try:
        return Path(f"/proc/{{pid}}/cmdline").read_bytes()
    except OSError:  # another run's, which has ended
        return b""

def run(name, fails_in):
    log = FOLDER / "runs"
    with log.open("a") as file:
        file.write(f"{{name}} {{busy_loops()}}\\n")
    assert log.read_text().count(f"{{name}} ") not in fails_in

def test_plain():
    run("plain", {plain!r})

@pytest.mark.timing
def test_of_time():
    run("time", {timing!r})

def test_last():
    run("last", {{0}})
"""
HANGING = """
import time

def test_hangs():
    time.sleep(600)
"""
SLOW = "tests/test_suite.py::test_of_time"
RECORD = "tests/timing-failures.txt"


class Project:
    """A project of one file of tests, with our scripts."""

    def __init__(self, folder):
        self.folder, self.tests = folder, folder / "tests"
        shutil.copytree(ROOT / "scripts", folder / "scripts")
        self.tests.mkdir()
        (folder / "setup.cfg").write_text(SETTINGS)
        (self.tests / "conftest.py").write_text(CONFTEST)

    def run(self, *arguments, plain=(), timing=(), only=("sqlite",)):
        """Its code, and its last lines."""
        suite = SUITE.format(plain={*plain, 0}, timing={*timing, 0})
        (self.tests / "test_suite.py").write_text(suite)
        names = [word for name in only for word in ("--only", name)]
        done = subprocess.run(
            [sys.executable, "scripts/run_tests.py", "--workers=1", *names, *arguments],
            cwd=self.folder,
            # The servers need not be there, since nobody connects to them.
            env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "DBQUEUE_MARIADB_URL": "x"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.said = done.stdout
        assert done.stderr == ""
        return done.returncode, done.stdout.rpartition("tests per database:\n")[2].splitlines()

    @property
    def runs(self):
        return [line.split()[0] for line in (self.tests / "runs").read_text().splitlines()]

    @property
    def record(self):
        path = self.folder / RECORD
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_where_all_pass_each_runs_once_and_those_of_time_come_last(project):
    code, table = project.run()
    assert (code, table) == (0, ["  sqlite 3 passed, 0 failed", "3 passed, 0 failed"])
    assert project.runs == ["plain", "last", "time"]
    assert project.record == []


def test_one_of_time_that_passes_five_times_next_to_a_busy_loop_is_named_and_on_record(project):
    code, table = project.run(timing=[1, 2], only=["sqlite", "mariadb"])
    assert table[0].startswith("  mariadb 3 passed, 0 failed (failed once, then passed 5 times")
    assert table[0].endswith(f", see {RECORD}: {SLOW})")
    lines = [line.split() for line in (project.tests / "runs").read_text().splitlines()]
    assert [loops for name, loops in lines if name == "time"] == ["0", "0", *["1"] * 5]
    [line] = project.record
    day, commit, *rest = line.split()
    assert (len(day), commit, rest) == (10, "unknown", ["mariadb", SLOW])
    # On the next database it is the second occurrence.
    assert (code, table[1:]) == (1, ["  sqlite 2 passed, 1 failed", "5 passed, 1 failed"])


def test_one_of_time_that_fails_in_any_of_the_five_has_failed(project):
    code, table = project.run(timing=[1, 4])
    assert (code, table[-1]) == (1, "2 passed, 1 failed")
    assert project.runs.count("time") == 4
    assert project.record == []


def test_what_lacks_the_mark_or_occurs_a_second_time_is_not_tried_again(project):
    before = f"# why\n2026-01-02 abc sqlite {SLOW}\n"
    (project.folder / RECORD).write_text(before)
    code, table = project.run(plain=[1], timing=[1])
    assert (code, table[-1]) == (1, "1 passed, 2 failed")
    assert project.runs == ["plain", "last", "time"]
    assert "\n".join(project.record) == before.strip()


def test_marks_that_are_asked_for_are_heeded_in_both_parts(project):
    code, table = project.run("-m", "timing or any_database")
    assert (code, table[-1], project.runs) == (0, "1 passed, 0 failed", ["time"])


def test_a_run_of_nothing_has_failed(project):
    code, table = project.run("-k", "nobody")
    assert (code, table) == (1, ["  sqlite 0 passed, 0 failed", "0 passed, 0 failed"])


def test_a_database_without_a_test_has_failed_unless_something_was_asked_for(project):
    (project.tests / "conftest.py").write_text(CONFTEST + NONE_ON_MARIADB)
    code, table = project.run(only=["sqlite", "mariadb"])
    assert (code, table[-1]) == (1, "3 passed, 1 failed")
    assert table[0] == "  mariadb 0 passed, 1 failed (no test was run)"
    code, table = project.run("tests", only=["sqlite", "mariadb"])
    assert (code, table[0], table[2]) == (
        0,
        "  mariadb 0 passed, 0 failed",
        "3 passed, 0 failed",
    )


def test_a_test_that_hangs_ends_the_run_and_shows_where(project):
    (project.tests / "test_hanging.py").write_text(HANGING)
    code, table = project.run("-ofaulthandler_timeout=8")
    assert (code, table[-1]) == (1, "0 passed, 1 failed")
    assert "in test_hangs" in project.said


def test_a_run_that_cannot_start_has_failed(project):
    (project.tests / "conftest.py").write_text("nonsense")
    code, table = project.run()
    assert (code, table[0]) == (1, "  sqlite 0 passed, 1 failed (pytest exited with 4)")


def test_a_database_without_a_server_has_failed(project, monkeypatch):
    monkeypatch.delenv("DBQUEUE_POSTGRESQL_URL", raising=False)
    code, table = project.run(only=["postgresql"])
    assert code == 1
    assert "DBQUEUE_POSTGRESQL_URL is not set: see scripts/servers.py" in table[0]


def test_three_databases_have_all_tests_of_processes_and_of_pages_between_them_in_turn():
    old = [suite for suite in wanted([], turn=7) if suite.label != "newest"]
    shares = [argument for suite in old for argument in suite.arguments]
    assert sorted(one for one in shares if "share" in one) == [
        *("--share=1/3", "--share=2/3", "--share=3/3"),
    ]
    assert shares.count("--turn=7") == 3
    assert not any("share" in str(suite.arguments) for suite in wanted([]))


def test_the_turn_is_the_number_of_commits_or_0_without_git(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    assert number_of_commits() == 0
    commit = (
        *("-c", "user.name=x", "-c", "user.email=x@x.example"),
        "commit",
        "--allow-empty",
        "-qm",
    )
    for words in (["init", "-q"], [*commit, "one"], [*commit, "two"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    assert number_of_commits() == 2
    monkeypatch.setenv("PATH", "")
    assert number_of_commits() == 0


@pytest.mark.parametrize("asked", [("--only=mariadb",), ("--full",)])
def test_a_turn_is_refused_where_nothing_is_shared_out(asked, capsys):
    with pytest.raises(SystemExit):
        main(["--turn=1", *asked])
    assert "--turn: with --only or --full" in capsys.readouterr().err


def test_the_newest_python_has_what_a_server_has_and_on_sqlite_the_rest():
    at_a_server, on_sqlite = (suite for suite in wanted([], turn=7) if suite.is_on_newest)
    assert (at_a_server.database, on_sqlite.database) == ("postgresql", "sqlite")
    assert {*at_a_server.arguments, "--the-rest"} <= {*on_sqlite.arguments}
    [by_name] = wanted(["postgresql"])
    assert not by_name.is_on_newest
    [by_name] = wanted(["newest"])
    assert "--the-rest" not in by_name.arguments


def test_mysql_has_the_short_tests_where_there_is_a_server_and_all_where_it_is_named(monkeypatch):
    monkeypatch.setenv("DBQUEUE_MYSQL_URL", "x")
    [beside_others] = [suite for suite in wanted([], turn=7) if suite.database == "mysql"]
    [by_name] = wanted(["mysql"])
    assert "--few-processes" in beside_others.arguments
    assert not beside_others.has_timing
    assert (by_name.arguments, by_name.has_timing) == (("--each-database",), True)


def test_a_run_of_all_says_that_mysql_is_not_tested_where_there_is_no_server(monkeypatch):
    monkeypatch.delenv("DBQUEUE_MYSQL_URL", raising=False)
    assert "mysql" not in [suite.database for suite in wanted([])]
    assert [untested([]), untested(["sqlite"])] == [["mysql"], []]
    monkeypatch.setenv("DBQUEUE_MYSQL_URL", "x")
    assert untested([]) == []
