"""Producers as processes at a bounded queue; tests.kit.bounded_producers runs it at any size."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("db_rows")]

FULL = {"producers": 8, "max-length": 1000, "seconds": 20, "kills": 10}
SHORT = {"producers": 4, "max-length": 200, "seconds": 2, "kills": 3}


@pytest.mark.proof
@pytest.mark.parametrize("when_full", ["reject", "drop_oldest"])
def test_a_bounded_queue_never_holds_more_while_producers_are_killed(database_url, when_full, full):
    size = (FULL if full else SHORT) | {"when-full": when_full}
    options = [f"--{name}={value}" for name, value in size.items()]
    command = [sys.executable, "-m", "tests.kit.bounded_producers", "--here", *options]
    env = os.environ | {"DATABASE_URL": database_url}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert json.loads(run.stdout)["right"]
