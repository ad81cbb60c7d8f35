"""Claimers and enqueuers at once. ``python -m tests.kit.stress`` runs it at any size."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.each_database, pytest.mark.usefixtures("db_rows")]

FULL = {"claimers": "10", "jobs": "10000"}
SHORT = {"claimers": "4", "jobs": "400"}


@pytest.mark.proof
@pytest.mark.parametrize("batch", [1, 10])
def test_nothing_is_lost_or_claimed_twice_under_stress(database_url, batch, full):
    size = (FULL if full else SHORT) | {"batch": batch}
    options = [f"--{name}={value}" for name, value in size.items()]
    command = [sys.executable, "-m", "tests.kit.stress", "--here", *options]
    env = os.environ | {"DATABASE_URL": database_url}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-3000:]
    assert json.loads(run.stdout)["twice"] == 0
