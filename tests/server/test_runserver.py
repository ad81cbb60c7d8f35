"""``runserver`` with ``RUN_WITH_SERVER``: a first job needs no second terminal."""

import os
import signal
import sys
import threading

import pytest

from django_dbqueue.server.process import stop_worker
from django_dbqueue.server.runserver import start_with_runserver
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.any_database, pytest.mark.process]

RUNSERVER = ["manage.py", "runserver", "0"]
ON_ITS_OWN = [*RUNSERVER, "--noreload"]
MISSING = "The queue tables are not up to date"


def test_a_worker_says_once_that_migrations_are_missing_and_begins_with_them(new_site):
    with new_site.serving(*ON_ITS_OWN):
        worker = new_site.worker()
        wait_until(lambda: MISSING in new_site.said())
        new_site.run("migrate", "-v0")
        new_site.runs_a_job()
        assert new_site.said().count(MISSING) == 1
        assert list(new_site.workers()) == [worker]


def test_a_reload_replaces_the_worker_and_term_leaves_nobody(site):
    with site.serving(*RUNSERVER) as server:
        first = site.worker()
        site.runs_a_job()
        with (site.app / "models.py").open("a") as models:
            models.write("# changed\n")
        second = site.worker(but=first)
        assert second != first
        site.runs_a_job()
        assert list(site.workers()) == [second]
        server.terminate()
        server.wait(60)
        wait_until(lambda: site.living() == [])


def test_a_worker_that_is_killed_is_replaced_and_ends_with_a_server_that_is_killed(site):
    with site.serving("-m", "django", *ON_ITS_OWN[1:], "--pythonpath", ".") as server:
        first = site.worker()
        wait_until(lambda: "worker.started" in site.said())
        os.kill(first, signal.SIGKILL)
        site.worker(but=first)
        site.runs_a_job()
        assert "exit code -9: starting it again in 1 s" in site.said()
        server.kill()
        server.wait()
        wait_until(lambda: site.living() == [])
        assert "has stopped (its parent is gone)" in site.said()


def test_ctrl_c_lets_the_worker_sign_off(site):
    with site.serving("-u", *ON_ITS_OWN) as server:
        site.runs_a_job()
        # Before it serves, Python may drop the signal: where it comes within a destructor.
        wait_until(lambda: "Quit the server" in site.said())
        server.send_signal(signal.SIGINT)
        wait_until(lambda: server.poll() is not None)
        assert server.returncode == 0, site.said()
        assert site.living() == []
        assert "has stopped (SIGTERM)" in site.said()


@pytest.mark.parametrize(("mode", "debug"), [("1", False), ("off", True)])
def test_without_debug_or_the_setting_no_worker_starts(site, mode, debug):
    with site.serving("-u", *ON_ITS_OWN, mode=mode, debug=debug) as server:
        wait_until(lambda: "Quit the server" in site.said())
        assert site.living() == [server.pid]


def test_a_wrong_value_is_what_the_checks_complain_of(site):
    with site.serving(*ON_ITS_OWN, mode="two") as server:
        assert server.wait(60) == 1
    wanted = "DBQUEUE_RUN_WITH_SERVER must be False, True, 'one' or 'each', not 'two'"
    assert wanted in site.said()
    assert "Traceback" not in site.said()


@pytest.mark.parametrize("words", ["migrate", "test", "shell", "check", "runworker", ""])
def test_other_commands_start_no_worker_even_where_a_server_runs_them(words, starting):
    assert not starting(words, RUN_MAIN="true")


def test_the_autoreloader_itself_starts_no_worker(starting):
    assert not starting("runserver 8000")


@pytest.fixture
def starting(settings, monkeypatch):
    """Whether a process with these arguments and variables begins to look after a worker."""
    settings.DEBUG, settings.DBQUEUE = True, {"RUN_WITH_SERVER": True}
    monkeypatch.delenv("RUN_MAIN", raising=False)

    def starting(words, **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["manage.py", *words.split()])
        start_with_runserver()
        return "dbqueue-worker" in [thread.name for thread in threading.enumerate()]

    yield starting
    stop_worker()
