"""The script that tests on another Debian: what it takes along, refuses, ends and tells."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import matrix
import matrix_tests
import pytest
from database_servers import Failure
from pytest_runs import Result

from tests.kit.processes import ROOT
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.process, pytest.mark.any_database]
# A process apart that starts another one, which would go on for ten minutes.
APART = """
import sys
import matrix
for signum in (matrix.signal.SIGTERM, matrix.signal.SIGINT):
    matrix.signal.signal(signum, matrix.on_signal)
script = 'mount -t tmpfs none "$0"; sleep 611 & touch "$1"; wait'
matrix.run_apart("sh", "-c", script, *sys.argv[1:])
"""


def can_live_apart():
    return subprocess.run([*matrix.APART, "true"], capture_output=True, check=False).returncode == 0


def processes_naming(text):
    asked = ["pgrep", "-f", text]
    return subprocess.run(asked, capture_output=True, check=False, text=True).stdout.split()


def test_a_checkout_is_copied_without_what_is_built_and_without_what_is_gone(monkeypatch, tmp_path):
    ours, target = tmp_path / "ours", tmp_path / "target"
    for name in ("tests/test_new.py", ".venv/ours", ".git/head", "build/ours", "dist/wheel"):
        (ours / name).parent.mkdir(parents=True, exist_ok=True)
        (ours / name).touch()
    for name in ("tests/test_old.py", ".venv/theirs", "build/theirs", "old.txt"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).touch()
    monkeypatch.setattr(matrix, "ROOT", ours)

    matrix.copy_checkout(target)

    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == {"tests/test_new.py", ".venv/theirs", "build/theirs"}


def test_who_is_not_root_is_told_so_before_anything_is_made(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(matrix, "BUILD", tmp_path / "matrix")
    monkeypatch.setattr(signal, "signal", lambda *args: None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert matrix.main([]) == 1

    assert "run this as root" in capsys.readouterr().err
    assert not (tmp_path / "matrix").exists()


def test_the_mirror_is_that_of_the_systems_debian(monkeypatch):
    printed = (
        "http://one.test/node_20.x/\nhttp://two.test/debian-security/\nhttp://two.test/debian/"
    )
    done = subprocess.CompletedProcess([], 0, stdout=printed)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)

    assert matrix.mirror_of_machine() == "http://two.test/debian/"


def test_without_a_mirror_the_option_is_named(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(Failure, match="--mirror"):
        matrix.mirror_of_machine()


def test_how_packages_are_reached_goes_along_and_no_other_setting(monkeypatch):
    for name in ("PIP_INDEX_URL", "https_proxy", "DATABASE_URL", "PYTHONPATH", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "ours")

    own = matrix.environment()

    ours = {name for name, value in own.items() if value == "ours"}
    assert ours == {"PIP_INDEX_URL", "https_proxy"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_all_that_runs_apart_and_nothing_stays_mounted(tmp_path, number):
    if not can_live_apart():
        pytest.skip("needs root, and namespaces")
    folder, started = tmp_path / "mounted", tmp_path / "started"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", APART, str(folder), str(started)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
    )
    wait_until(started.exists)
    assert processes_naming(str(started))

    process.send_signal(number)
    process.wait()

    wait_until(lambda: not processes_naming(str(started)))
    assert str(folder) not in Path("/proc/mounts").read_text()


def test_the_table_has_a_row_for_each_database_and_ends_with_the_totals(capsys):
    rows = [
        matrix_tests.Row("SQLite 3.46.1", Result("one", passed=3, skipped=2)),
        matrix_tests.Row("MySQL 9.7.0", Result("two", passed=1, failed=1, note="pytest exited")),
    ]

    assert matrix_tests.summarise(rows) == 1

    lines = capsys.readouterr().out.splitlines()
    [sqlite] = [line for line in lines if line.startswith("| SQLite 3.46.1 |")]
    assert sqlite.endswith("| 3 | 0 | 2 |")
    assert "MySQL 9.7.0: pytest exited" in lines
    assert lines[-1] == "4 passed, 1 failed"


def test_the_version_of_sqlite_is_that_of_its_library():
    assert matrix_tests.version("sqlite").startswith("3.")
