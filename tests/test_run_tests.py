"""What failed beside other databases is tested once more, alone, and only that."""

import sys

import pytest
import run_tests

# What is no test unless the arguments say so shows that they are given again.
SUITE = """
from pathlib import Path

def check_what_passes():
    pass

def check_what_may_fail():
    seen = Path({seen!r})
    seen.write_text(seen.read_text() + "x" if seen.exists() else "x")
    assert len(seen.read_text()) >= {passes_at}
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)

    def run(passes_at):
        file = tmp_path / "test_suite.py"
        file.write_text(SUITE.format(seen=str(tmp_path / "seen"), passes_at=passes_at))
        plain = [
            "-p",
            "no:django",
            "-c",
            "/dev/null",
            f"--rootdir={tmp_path}",
            "-o",
            "python_functions=check_*",
        ]
        found = run_tests.run_pytest("here", sys.executable, "sqlite", [str(file), *plain])
        return found, run_tests.look_again(found)

    return run


def test_what_passes_alone_counts_as_passed_and_is_named(suite):
    first, last = suite(passes_at=2)
    assert (first.passed, first.failed) == (1, 1)
    assert (last.passed, last.failed) == (2, 0)
    assert last.note == "passed only when tested alone: test_suite.py::check_what_may_fail"


def test_what_fails_again_has_failed(suite):
    _, last = suite(passes_at=9)
    assert (last.passed, last.failed, last.note) == (1, 1, "")


def test_what_passes_is_not_tested_again(suite):
    first, last = suite(passes_at=1)
    assert first == last
    assert first.once_more is None
    assert first.passed == 2


def test_where_more_than_a_few_fail_the_machine_is_not_to_blame(suite, monkeypatch):
    monkeypatch.setattr(run_tests, "MOST_AGAIN", 0)
    _, last = suite(passes_at=2)
    assert last.failed == 1
