"""What systemd, containers and probes see of a worker."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from contextlib import closing, contextmanager

import pytest

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.health import notify
from django_dbqueue.worker.options import EXIT_STOPPED
from tests.kit.jobs import fresh, table_locked
from tests.kit.processes import ROOT, Process, give_back, running, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

COMPOSE = (ROOT / "docs/examples/compose.yaml").read_text()
KUBERNETES = (ROOT / "docs/examples/kubernetes.yaml").read_text()

# What systemd and probes see is files, sockets and signals.
pytestmark = pytest.mark.any_database
working = pytest.mark.usefixtures("db_rows")


# systemd


class Listener:
    """The end of ``NOTIFY_SOCKET`` at which systemd listens."""

    def __init__(self, address):
        self.address = address
        self.heard = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def close(self):
        self._socket.close()

    def count(self, state):
        try:
            while True:
                self.heard.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return self.heard.count(state)

    def wait(self, state, more=1, seconds=30):
        """Until it was heard so many times more than was asked for before."""
        wanted = self.heard.count(state) + more
        wait_until(lambda: self.count(state) >= wanted, seconds)


@pytest.fixture(params=["path", "abstract"])
def systemd(request):
    with tempfile.TemporaryDirectory() as folder:
        address = f"@{uuid.uuid4().hex}" if request.param == "abstract" else f"{folder}/notify"
        with closing(Listener(address)) as listener:
            yield listener


def test_systemd_listens_at_a_path_or_at_an_abstract_address(systemd, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", systemd.address)
    notify("READY=1")
    assert systemd.count("READY=1") == 1


@working
@pytest.mark.parametrize("systemd", ["abstract"], indirect=True)
def test_systemd_hears_when_a_worker_is_ready_that_it_lives_and_when_it_stops(
    systemd, database_url, log
):
    job = Note.objects.create(seconds=600, log=log)
    with worker(database_url, NOTIFY_SOCKET=systemd.address) as process:
        systemd.wait("READY=1")
        wait_for_lines(log, 1)
        systemd.wait("WATCHDOG=1")
        assert systemd.count("STOPPING=1") == 0
        process.send(signal.SIGTERM)
        systemd.wait("STOPPING=1")
        # It is alive while it waits for what runs.
        systemd.count("WATCHDOG=1")
        systemd.wait("WATCHDOG=1")
        process.send(signal.SIGTERM)
        assert process.end() == EXIT_STOPPED, process.stderr
    give_back(database_url, process, Note)
    assert fresh(job).status == Status.READY
    assert systemd.count("READY=1") == systemd.count("STOPPING=1") == 1


@working
@pytest.mark.parametrize("command", ["runworker", "runreaper"])
def test_signals_in_the_last_moment_change_no_exit_code(database_url, command):
    with running(database_url, command) as process:
        wait_until(lambda: Worker.objects.filter(pid=process.pid))
        process.send(signal.SIGTERM)
        wait_until(
            lambda: process.popen.poll() is not None or process.send(signal.SIGHUP), every=0.001
        )
        assert (process.end(), "Traceback" in process.stderr) == (EXIT_STOPPED, False), (
            process.stderr
        )


@working
@pytest.mark.each_database  # for its lock holds up the beat
@pytest.mark.timing
@pytest.mark.parametrize("systemd", ["abstract"], indirect=True)
def test_the_watchdog_is_answered_while_the_database_is_locked(systemd, database_url):
    with worker(database_url, NOTIFY_SOCKET=systemd.address) as process:
        systemd.wait("READY=1")
        with table_locked(Worker):  # nobody can beat
            wait_until(lambda: "beating: " in process.stderr)
            systemd.count("WATCHDOG=1")
            for _ in range(2):
                systemd.wait("WATCHDOG=1", seconds=30)
        process.send(signal.SIGTERM)
        assert process.end() == EXIT_STOPPED


@pytest.mark.process
@pytest.mark.parametrize("systemd", ["abstract"], indirect=True)
def test_a_worker_that_waits_for_its_database_is_alive_but_not_ready(systemd, tmp_path):
    away = f"sqlite:///{tmp_path}/nowhere/db.sqlite3"
    with worker(away, NOTIFY_SOCKET=systemd.address) as process:
        systemd.wait("WATCHDOG=1", more=2)
        process.send(signal.SIGTERM)
        assert process.end() == EXIT_STOPPED, process.stderr
    assert systemd.count("READY=1") == 0


# The health file


@pytest.fixture
def health(tmp_path):
    return tmp_path / "alive"


@working
@pytest.mark.timing
def test_the_health_file_stays_fresh_while_a_job_holds_the_gil_and_goes_with_the_worker(
    database_url, log, health
):
    job = Note.objects.create(action="hold_gil", text="4", log=log)
    seen = set()
    with worker(database_url, "queueapp.Note", "--health-file", str(health)) as process:
        wait_for_lines(log, 1)
        while fresh(job).status == Status.CLAIMED:
            seen.add(health.stat().st_mtime)
            time.sleep(0.1)
        assert len(seen) >= 3
        process.send(signal.SIGTERM)
        assert process.end() == EXIT_STOPPED
    assert not health.exists()


@working
def test_a_worker_that_ends_before_it_works_leaves_no_health_file(database_url, health):
    with worker(database_url, "--once", "--health-file", str(health)) as process:
        assert process.end() == EXIT_STOPPED
    assert not health.exists()


@working
def test_the_health_file_of_a_killed_worker_stays_and_grows_old(database_url, health):
    with worker(database_url, "--health-file", str(health)) as process:
        wait_until(lambda: "worker.started" in process.stderr and health.exists())
        process.send_group(signal.SIGKILL)
        process.end()
        assert probe(kubernetes_probe(), health) == 0
        written = health.stat().st_mtime
        os.utime(health, (written - 90, written - 90))
        assert probe(kubernetes_probe(), health) != 0


def kubernetes_probe():
    """The command as it is printed in the example."""
    [line] = re.findall(r"^ *command: (\[\"sh\".*\])$", KUBERNETES, re.MULTILINE)
    return json.loads(line)


def probe(command, health):
    return subprocess.run(
        [part.replace("/tmp/worker-alive", str(health)) for part in command],
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode


@pytest.mark.parametrize(("age", "is_well"), [(0, True), (50, True), (70, False), (None, False)])
def test_the_probe_looks_at_the_age_of_the_file(health, age, is_well):
    if age is not None:
        health.touch()
        os.utime(health, (time.time() - age, time.time() - age))
    assert (probe(kubernetes_probe(), health) == 0) is is_well


def test_compose_asks_as_kubernetes_does():
    [line] = re.findall(r"^ *test: (\[\"CMD-SHELL\".*\])$", COMPOSE, re.MULTILINE)
    assert json.loads(line)[1].replace("$$", "$") == kubernetes_probe()[-1]


# Process 1 of a container


def unshare():
    """A command in a PID namespace of its own, its first process."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *user, "--pid", "--fork", "--mount-proc", "--kill-child"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False).returncode
    ):
        pytest.skip("no PID namespaces for us here (unshare is refused)")
    return command


@contextmanager
def process_one(database_url):
    """A worker as process 1: unshare's process, and the worker's pid as we see it."""
    outer = Process(database_url, "runworker", within=unshare())
    try:
        [pid] = wait_until(outer.forked)
        yield outer, pid
    finally:
        outer.kill()


@working
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_is_process_1_runs_jobs_and_heeds_signals(database_url, log, number):
    Note.objects.create(log=log)
    with process_one(database_url) as (outer, pid):
        wait_for_lines(log, 1)
        assert "pid 1," in outer.stderr
        os.kill(pid, number)
        assert outer.end() == EXIT_STOPPED


@pytest.mark.process
def test_a_worker_that_is_process_1_heeds_term_before_it_has_found_its_database(tmp_path):
    away = f"sqlite:///{tmp_path}/nowhere/db.sqlite3"
    with process_one(away) as (outer, pid):
        wait_until(lambda: "connecting: " in outer.stderr)
        os.kill(pid, signal.SIGTERM)
        assert outer.end() == EXIT_STOPPED
