"""Exactly-once jobs whose workers are killed and frozen; `make once` runs it at any size."""

import os
import subprocess
import sys

import pytest
from django.db import connection

from tests.kit.processes import ROOT

OPTIONS = "--jobs=100", "--every=0.5", "--kills=2"
pytestmark = pytest.mark.usefixtures("db_rows")


def run(*options, code=0):
    """The figures that the script prints, by name."""
    command = [sys.executable, str(ROOT / "scripts/once.py"), *OPTIONS, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    print(done.stdout)
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    said = done.stdout.partition(", ")[2].split(", ")
    return {name: int(value) for value, name in (one.strip().split(" ") for one in said)}


def here():
    return "sqlite" if connection.vendor == "sqlite" else os.environ["DATABASE_URL"]


def test_every_job_has_one_effect_in_its_own_database_whatever_is_killed():
    figures = run(f"--queue={here()}")
    assert (figures["missing"], figures["doubled"], figures["unfinished"]) == (0, 0, 0)
    assert figures["kills"] >= 2


def test_every_job_has_one_effect_in_another_database_whatever_is_killed():
    other = "sqlite:////another" if connection.vendor == "sqlite" else "sqlite"
    figures = run(f"--queue={here()}", f"--effects={other}")
    assert (figures["missing"], figures["doubled"], figures["unfinished"]) == (0, 0, 0)
    assert figures["kills"] >= 2


@pytest.mark.proof
def test_without_receipts_effects_are_doubled(full):
    """The same run can fail."""
    if not full:
        pytest.skip("with --full")
    other = "sqlite:////another" if connection.vendor == "sqlite" else "sqlite"
    options = ["--without=receipt", "--pause=0.3", "--jobs=200"]
    assert run(f"--queue={here()}", f"--effects={other}", *options, code=1)["doubled"]
