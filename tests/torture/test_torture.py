"""``manage.py dbqueue torture``, short: faults of every kind, and nothing lost."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import database_servers
import pytest
from django.db import connection

from django_dbqueue.torture.fleet import Group, environment, python
from django_dbqueue.torture.options import Plan
from django_dbqueue.torture.restarts import Restarts
from django_dbqueue.torture.schedule import FAULTS, schedule
from django_dbqueue.torture.scratch import scratch_config
from django_dbqueue.torture.stops import STOPS, leave
from django_dbqueue.torture.summary import figures_text, verdicts_text
from django_dbqueue.torture.verdicts import Figures, Report, Verdict, Violation
from tests.kit.jobs import start_all
from tests.kit.private_server import private_session  # noqa: F401  # a fixture
from tests.kit.processes import ROOT, running
from tests.kit.waiting import wait_until

SEED = 5
FAST = {"DBQUEUE_BEAT_INTERVAL": "0.3", "DBQUEUE_WORKER_TIMEOUT": "1.5"}
SMALL = {
    "minutes": "0.15",
    "jobs-per-second": "40",
    "workers": "4",
    "producers": "1",
    "kill9": "0.8",
    "groups": "0.2",
    "stop": "0.6",
    "restart-every": "5",
    "drop-connections": "2",
    "read-only": "5",
    "silence": "4",
    "deadlocks": "2",
    "snapshot": "5",
}


def torture(url, *more):
    options = [f"--{name}={value}" for name, value in SMALL.items()]
    command = [sys.executable, "manage.py", "dbqueue", "torture", f"--seed={SEED}", *options, *more]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | FAST | {"DATABASE_URL": url, "DEBUG": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=200)
    finally:
        process.terminate()  # it cleans up when it is asked to, not when it is killed
        process.wait(120)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def figure(run, name):
    return int(re.search(rf"^ *{re.escape(name)} +(\d+)", run.stdout, re.MULTILINE)[1])


def restart_command(private):
    if connection.vendor == "sqlite":
        return ""
    server = private.server
    script = [sys.executable, str(ROOT / "scripts/torture.py"), "restart"]
    return shlex.join([*script, server.name, str(server.folder.parent)])


@pytest.mark.nightly
def test_nothing_is_lost_or_run_without_a_cause(private_session):  # noqa: F811
    private_session.start()
    restart = restart_command(private_session)
    run = torture(private_session.admin_url, f"--restart-database={restart}")
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert figure(run, "jobs") > 50
    assert figure(run, "SIGKILLs") > 5
    assert figure(run, "SIGSTOP cycles") > 2
    assert figure(run, "server restarts") >= bool(restart)


@pytest.mark.usefixtures("_nobody_left")
def test_a_torture_without_a_job_proves_nothing(tmp_path):
    told = ["--workers=1", "--minutes=0.001", f"--keep={tmp_path / 'kept'}"]
    run = torture(f"sqlite:///{tmp_path}/db.sqlite3", *told)
    assert figure(run, "jobs") == 0
    assert run.returncode == 1
    assert "no job was enqueued, so nothing is proved: see " in run.stdout


def test_a_server_is_killed_whose_children_come_and_go(monkeypatch, tmp_path):
    with subprocess.Popen(["sleep", "60"]) as parent, subprocess.Popen(["true"]) as ended:
        ended.wait()
        server = database_servers.Server(tmp_path)
        monkeypatch.setattr(server, "pid", lambda: parent.pid)
        seen = iter([[parent.pid, ended.pid], []])
        monkeypatch.setattr(database_servers, "family", lambda _: next(seen))
        try:
            server.kill()
        finally:
            parent.kill()
        assert database_servers.is_gone(parent.pid)


@pytest.fixture
def _nobody_left(tmp_path):
    """Where a test fails early, what the torture has started ends with it."""
    yield
    for environ in processes_with(str(tmp_path)):
        with suppress(ProcessLookupError):
            os.kill(int(environ.parent.name), signal.SIGKILL)


@pytest.mark.usefixtures("db_rows", "_nobody_left")
def test_who_is_told_to_stop_leaves_nothing_behind(private_session, tmp_path):  # noqa: F811
    private_session.start()
    # A worker that is killed each few seconds may not come to a job on a busy machine.
    told = ["--minutes=5", "--workers=1", "--kill9=0", f"--keep={tmp_path}"]
    with running(private_session.admin_url, "dbqueue", "torture", *told, **FAST) as process:
        wait_until(lambda: list(tmp_path.glob("worker-0-*.jsonl")))
        assert processes_with(str(tmp_path))
        process.send(signal.SIGTERM)
        while process.popen.poll() is None:
            process.send(signal.SIGTERM)  # people press a key more than once
            time.sleep(0.02)
        assert process.end(60) in {128 + signal.SIGTERM, -signal.SIGTERM}
    # A process that was killed may take its time to end.
    wait_until(lambda: not processes_with(str(tmp_path)))


def test_a_stop_that_comes_while_a_process_is_started_leaves_it_to_be_ended(monkeypatch, tmp_path):
    started = []

    def popen(*args, **given):
        started.append(real(*args, **given))
        signal.raise_signal(signal.SIGTERM)
        return started[0]

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    before = [signal.getsignal(one) for one in STOPS]
    for one in STOPS:
        signal.signal(one, leave)
    group = Group("sleeper", ["sleep", "60"], dict(os.environ), tmp_path / "log")
    try:
        with pytest.raises(SystemExit):
            group.start()
        group.kill()
        assert started[0].poll() == -signal.SIGKILL
    finally:
        started[0].kill()
        for one, handler in zip(STOPS, before, strict=True):
            signal.signal(one, handler)


def processes_with(word):
    """Those that have it in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += [path] if word.encode() in path.read_bytes() else []
        except OSError:
            pass  # it is gone
    return found


def test_what_is_broken_is_named_with_its_events():
    event = {"t": 5_000_000_000, "op": "start", "type": "invoke", "key": 7, "pid": 1}
    red = Verdict("I3", "nobody starts it twice", [Violation("job 7: twice", [event])])
    report = Report({"I3": red, "I1": Verdict("I1", "it is there", [])}, Figures())
    text = verdicts_text(report, ["worker-1 ended by itself"])
    assert text.splitlines() == [
        "I3 is broken 1 times: nobody starts it twice",
        "  job 7: twice",
        "    5.000 start invoke key=7 pid=1",
        "worker-1 ended by itself",
    ]


def test_the_figures_tell_kills_of_workers_from_those_of_children():
    kill = {"op": "kill", "group": True, "target": "worker-2"}
    figures = Figures(jobs=3, duplicates={"kill": 2}, handover_alone=[1.0, 12.5])
    text = figures_text(Plan(seed=9), Report({}, figures), [kill, kill | {"group": False}])
    found = dict(re.findall(r"^ *(\S.*?) {2,}(\S.*)$", text, re.MULTILINE))
    assert (found["seed"], found["jobs"], found["lost"]) == ("9", "3", "0")
    assert (found["SIGKILLs"], found["of whole workers"]) == ("2", "0")
    assert found["duplicates, explained"] == "2 (kill 2)"
    assert found["hand-over, without"] == "p50 12.50 s, p99 12.50 s, max 12.50 s of 2"


def test_a_seed_makes_the_same_faults_again():
    def faults(**told):
        plan = Plan(minutes=5, restart_database="true", read_only=20, **told)
        return [(one.at, one.kind, one.rng.random()) for one in schedule(plan)]

    assert faults(seed=1) == faults(seed=1) != faults(seed=2)
    assert {kind for _, kind, _ in faults(seed=1)} == set(FAULTS)
    assert sorted(faults(seed=1)) == faults(seed=1)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_of_no_interval_never_comes(kind):
    switch = "restart_every" if kind == "restart" else kind
    rates: dict[str, Any] = {"read_only": 20.0, switch: 0.0}
    plan = Plan(seed=1, minutes=5, restart_database="true", **rates)
    assert kind not in {one.kind for one in schedule(plan)}


def test_five_minutes_have_as_many_faults_as_are_promised():
    plan = Plan(seed=1, minutes=5, restart_database="true")
    kills = [one for one in schedule(plan) if one.kind == "kill9"]
    # Two thirds of the groups are workers; the others are producers and a reaper.
    assert sum(one.rng.random() < plan.groups for one in kills) * 2 / 3 >= 20
    kinds = [one.kind for one in schedule(plan)]
    assert kinds.count("kill9") >= 200
    assert kinds.count("stop") >= 100
    assert kinds.count("restart") >= 10


def test_a_restart_waits_for_the_one_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr("django_dbqueue.torture.restarts.tell", lambda *_, **__: None)
    place = tmp_path / "down"
    restarts = Restarts(f"mkdir {place} && sleep 0.3 && rmdir {place}")
    start_all(restarts.restart, restarts.restart)
    assert restarts.problem == ""


FORBIDDEN = """
import json, sys
from contextlib import nullcontext
import django
django.setup()
from django.db import OperationalError
from django_dbqueue.torture import database_faults, scratch
from django_dbqueue.torture.__main__ import campaign
from django_dbqueue.torture.options import Plan

class Forbidden(database_faults.DatabaseFaults):
    def read_only(self, on):
        raise OperationalError("Access denied; you need the SUPER privilege")

scratch.scratch_database = lambda: nullcontext({})
database_faults.faults_for_this_database = Forbidden
sys.exit(campaign(json.dumps(Plan(seed=1, read_only=20).as_dict())))
"""
NO_RIGHTS = """
import django
django.setup()
from django.db import OperationalError
from django_dbqueue.torture import database_faults

def sql(statement, *_params):
    print(statement.split()[0])
    if statement.startswith("GRANT"):
        raise OperationalError("Access denied")

database_faults.sql = sql
with database_faults.MySQLFaults().account({"NAME": "shop"}):
    print("it may write nothing")
"""


def run_apart(code):
    """In a process of its own: the tables of a torture are not those of the tests."""
    env = os.environ | {"DJANGO_SETTINGS_MODULE": "testproject.settings", "DBQUEUE_TESTS": "1"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_server_that_the_account_may_not_make_read_only_is_told():
    ended = run_apart(FORBIDDEN)
    told = "--read-only: Access denied; you need the SUPER privilege\n"
    assert (ended.returncode, ended.stderr) == (2, told)


@pytest.mark.process
def test_an_account_that_cannot_be_given_its_rights_does_not_stay_on_the_server():
    ended = run_apart(NO_RIGHTS)
    assert ended.stderr.endswith("OperationalError: Access denied\n")
    assert ended.stdout.split() == ["DROP", "DROP", "CREATE", "GRANT", "DROP", "DROP"]


def test_the_scratch_database_is_another_one(tmp_path):
    server = {"ENGINE": "django.db.backends.postgresql", "NAME": "shop", "TEST": {"MIRROR": "x"}}
    assert scratch_config(server, tmp_path)["TEST"] == {"NAME": "test_shop_torture"}
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/shop.sqlite3"}
    assert scratch_config(file, tmp_path)["TEST"]["NAME"].startswith(str(tmp_path))


def test_files_of_a_database_may_be_paths_as_django_writes_them_into_new_projects(tmp_path):
    options = {"sslrootcert": tmp_path / "ca.pem"}
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "own", "OPTIONS": options}
    config = scratch_config(own, tmp_path)
    told = json.loads(environment(config, str(tmp_path), "test")["DBQUEUE_TORTURE"])["database"]
    assert told["NAME"] == f"{tmp_path}/own"
    assert told["OPTIONS"] == {"sslrootcert": f"{tmp_path}/ca.pem"}


@pytest.mark.process
def test_the_migrations_are_up_to_date(tmp_path):
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "own.sqlite3")}
    config = scratch_config(own, tmp_path)
    run = subprocess.run(
        python("django", "makemigrations", "--check", "--dry-run", "dbqueue_torture"),
        env=environment(config, str(tmp_path), "test"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.process
def test_a_folder_with_other_histories_is_refused(tmp_path):
    (tmp_path / "old.jsonl").touch()
    run = torture("sqlite://:memory:", f"--keep={tmp_path}")
    assert run.returncode == 1
    assert "is not empty" in run.stderr
