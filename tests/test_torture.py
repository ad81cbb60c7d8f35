"""``manage.py dbqueue torture``, short: faults of every kind, and nothing lost."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from django.db import connection

from scripts import database_servers as servers
from tests.processes import ROOT

SEED = 5
FAST = {"DBQUEUE_BEAT_INTERVAL": "0.4", "DBQUEUE_WORKER_TIMEOUT": "2"}
SMALL = {
    "minutes": "0.2",
    "jobs-per-second": "40",
    "workers": "3",
    "producers": "1",
    "kill9": "0.9",
    "groups": "0.2",
    "stop": "1.5",
    "restart-every": "7",
    "drop-connections": "3",
    "read-only": "8",
    "deadlocks": "3",
    "snapshot": "8",
}


def torture(url, *more, **changed):
    options = [f"--{name}={value}" for name, value in (SMALL | changed).items()]
    command = [sys.executable, "manage.py", "dbqueue", "torture", f"--seed={SEED}", *options, *more]
    env = os.environ | FAST | {"DATABASE_URL": url, "DEBUG": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=200, check=False
    )


def figure(run, name):
    return int(re.search(rf"^ *{re.escape(name)} +(\d+)", run.stdout, re.MULTILINE)[1])


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a database of the test's own, and the command that kills and restarts its server."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('torture')}/own.sqlite3", ""
        return
    kind = {"mysql": servers.MariaDB, "postgresql": servers.PostgreSQL}[connection.vendor]
    with servers.short_folder() as folder:
        server = kind(folder)
        server.start()
        try:
            yield server.url(), restart_command(server.name, folder)
        finally:
            server.stop()


def restart_command(name, folder):
    script = [sys.executable, str(ROOT / "scripts/torture.py"), "restart", name, str(folder)]
    return shlex.join(script)


@pytest.mark.proof
def test_nothing_is_lost_or_run_without_a_cause_under_torture(address):
    url, restart = address
    run = torture(url, f"--restart-database={restart}")
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert figure(run, "jobs") > 100
    assert figure(run, "SIGKILLs") > 5
    assert figure(run, "SIGSTOP cycles") > 3
    assert figure(run, "server restarts") == (1 if restart else 0)


def test_what_a_torture_finds_is_said_with_its_events(address):
    """Here it is told that a claim lasts shorter than it does."""
    url, _ = address
