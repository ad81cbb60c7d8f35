"""What keeps a server's worker alive, with small commands that take a worker's place."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from subprocess import PIPE

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_dbqueue.backoff import Exponential
from django_dbqueue.conf import conf
from django_dbqueue.server import process
from django_dbqueue.server.lock import HostLock, lock_path
from django_dbqueue.server.process import WorkerProcess, start_worker
from tests.kit.processes import ROOT, has_ended
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.any_database, pytest.mark.process]

LOG = "import os, signal, sys, time; print(os.getpid(), file=open('pids', 'a'), flush=True)\n"


@pytest.fixture
def keep(tmp_path, monkeypatch):
    """Starts a server's worker that is a piece of code; it is stopped afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, "KILL_SECONDS", 0.1)
    started = []

    def keep(code, lock=None):
        started.append(WorkerProcess([sys.executable, "-c", LOG + code], lock))
        started[-1].start()
        return started[-1]

    yield keep
    for worker in started:
        worker.stop()


def read(name):
    return Path(name).read_text() if Path(name).exists() else ""


def pids():
    return [int(line) for line in read("pids").split()]


def test_the_pauses_between_deaths_grow(keep, monkeypatch, caplog):
    monkeypatch.setattr(process, "PAUSES", Exponential(first=0.01, factor=200, cap=300, jitter=0))
    keep("sys.exit(1)")
    wait_until(lambda: caplog.text.count("ended with exit code 1") == 3)
    assert [record.args[1] for record in caplog.records] == pytest.approx([0.01, 2, 300])


def test_one_that_ended_as_planned_starts_again_after_the_first_pause_always(
    keep, monkeypatch, caplog
):
    monkeypatch.setattr(process, "PAUSES", Exponential(first=0.01, factor=3e4, cap=300, jitter=0))
    monkeypatch.setattr(process, "PLANNED_SECONDS_MIN", 0)
    keep("sys.exit(12 if len(open('pids').readlines()) < 4 else 1)")
    wait_until(lambda: "ended with exit code 1:" in caplog.text)
    assert len(pids()) == 4
    assert [record.args[1] for record in caplog.records if record.args[0] == 1] == [0.01]


def test_the_pauses_grow_where_a_limit_is_too_low_for_any_life(keep, monkeypatch, caplog):
    monkeypatch.setattr(process, "PAUSES", Exponential(first=0.01, factor=200, cap=300, jitter=0))
    keep("sys.exit(12)")
    wait_until(lambda: caplog.text.count("ended with exit code 12") == 3)
    assert [record.args[1] for record in caplog.records] == pytest.approx([0.01, 2, 300])


def test_one_that_was_asked_to_stop_stays_stopped(keep, caplog):
    keep("pass")
    wait_until(lambda: "it starts again with the server" in caplog.text)
    assert len(pids()) == 1


def test_one_that_does_not_stop_is_killed_after_the_grace(keep, settings):
    settings.DBQUEUE = {"SHUTDOWN_TIMEOUT": 0.1}
    worker = keep(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); open('deaf', 'w'); time.sleep(600)"
    )
    wait_until(lambda: Path("deaf").exists())
    worker.stop()
    assert all(map(has_ended, pids()))


@pytest.mark.parametrize("key", ["shutdown-timeout", "shutdown_timeout"])
def test_one_whose_file_gives_it_longer_is_not_killed_before(keep, settings, monkeypatch, key):
    settings.DBQUEUE = {"SHUTDOWN_TIMEOUT": 0}
    Path("worker.toml").write_text(f"processes = 2\n{key} = 60\n")
    monkeypatch.setenv("DBQUEUE_CONFIG", "worker.toml")
    worker = keep(
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), open('left', 'w'), sys.exit()))\n"
        "open('ready', 'w'); time.sleep(600)"
    )
    wait_until(lambda: Path("ready").exists())
    worker.stop()
    assert Path("left").exists()


def test_a_time_to_stop_that_makes_no_sense_is_named_and_tried_again(
    keep, settings, monkeypatch, caplog
):
    monkeypatch.setattr(process, "PAUSES", Exponential(first=0.01, factor=1, jitter=0))
    settings.DBQUEUE = {"SHUTDOWN_TIMEOUT": "soon"}
    keep("time.sleep(600)")
    wait_until(lambda: caplog.text.count("cannot be started: DBQUEUE['SHUTDOWN_TIMEOUT']") > 1)
    settings.DBQUEUE = {"SHUTDOWN_TIMEOUT": 0.1}
    wait_until(pids)


def test_the_end_of_a_fork_of_the_server_stops_nothing(keep):
    worker = keep("time.sleep(600)")
    [pid] = wait_until(pids)
    if not (fork := os.fork()):
        signal.alarm(10)  # the end of it, if it waits for what is no child of its own
        worker.stop()
        os._exit(0)
    os.waitpid(fork, 0)
    assert not has_ended(pid)


def test_what_systemd_hears_is_about_the_server(keep, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/systemd/notify")
    keep("open('heard', 'w').write(f'{os.environ.get(\"NOTIFY_SOCKET\")}.'); time.sleep(600)")
    assert wait_until(lambda: read("heard")) == "None."


def test_a_lock_is_for_one_process_and_free_when_that_has_died(tmp_path):
    code = "import sys; from pathlib import Path; from django_dbqueue.server.lock import HostLock\n"
    code += "print(HostLock(Path(sys.argv[1])).acquire(), flush=True); sys.stdin.read()"
    ours, command = HostLock(tmp_path / "lock"), [sys.executable, "-c", code, tmp_path / "lock"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, cwd=ROOT, text=True) as other:
        try:
            assert other.stdout.readline() == "True\n"
            assert not ours.acquire()
        finally:
            other.kill()
    assert ours.acquire()
    ours.release()


def test_what_clears_old_files_away_sees_that_the_file_is_in_use(tmp_path):
    ours = HostLock(tmp_path / "lock")
    assert ours.acquire()
    assert ours.acquire()
    with (tmp_path / "lock").open() as seen:
        with pytest.raises(BlockingIOError):
            fcntl.flock(seen, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ours.release()
        fcntl.flock(seen, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_process_that_does_not_get_the_lock_starts_nothing(keep, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "LOCK_SECONDS", 0.01)
    tries = threading.Semaphore(0)

    class Taken(HostLock):
        def acquire(self):
            tries.release()
            return False

    keep("time.sleep(600)", Taken(tmp_path / "lock"))
    assert all(tries.acquire(timeout=60) for _ in range(3))
    assert pids() == []


def test_projects_and_databases_have_locks_of_their_own(settings, monkeypatch):
    first = lock_path()
    assert lock_path() == first
    monkeypatch.setitem(settings.DATABASES["default"], "NAME", "another")
    assert lock_path() != first


def test_a_lock_file_that_is_no_file_of_ours_is_not_followed(
    settings, monkeypatch, tmp_path, caplog
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    lock_path().symlink_to(tmp_path / "elsewhere")
    settings.DBQUEUE = {"RUN_WITH_SERVER": "one"}
    start_worker(["false"])
    assert "its lock file cannot be opened" in caplog.text
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("True", True), ("off", False), ("", False), ("ONE", "one"), ("each", "each")],
)
def test_the_environment_says_it_in_words(monkeypatch, text, value):
    monkeypatch.setenv("DBQUEUE_RUN_WITH_SERVER", text)
    assert repr(conf["RUN_WITH_SERVER"]) == repr(value)


@pytest.mark.parametrize("value", [1, "two", None, ["one"]])
def test_a_value_that_means_nothing_is_named_with_those_that_do(settings, value):
    settings.DBQUEUE = {"RUN_WITH_SERVER": value}
    with pytest.raises(ImproperlyConfigured) as caught:
        conf["RUN_WITH_SERVER"]
    words = "DBQUEUE['RUN_WITH_SERVER'] must be False, True, 'one' or 'each', not"
    assert str(caught.value) == f"{words} {value!r}"
