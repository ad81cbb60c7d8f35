"""``runworker --reload``: for development."""

import os
import signal
import subprocess
import sys

import pytest

from django_dbqueue.worker.parent import PARENT, take_parent
from django_dbqueue.worker.reload import Reloader
from tests.kit.processes import Process, has_ended
from tests.kit.waiting import wait_until

SETTINGS = """
SECRET_KEY = "for a test"
DEBUG = True
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django_dbqueue", "letters"]
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": "db.sqlite3",
    "OPTIONS": {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"},
}}
"""
MODELS = """
from pathlib import Path

from django_dbqueue.models import Job

class Letter(Job):
    class Meta(Job.Meta):
        pass

    def run(self):
        Path("log").open("a").write("VERSION ")
"""
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "__init__.py").touch()
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "manage.py").write_text(MANAGE)
    write(tmp_path, "one")
    for command in (["makemigrations", "letters"], ["migrate", "-v", "0"]):
        assert run(tmp_path, *command) == 0
    return tmp_path


def write(project, version):
    (project / "letters" / "models.py").write_text(MODELS.replace("VERSION", version))


def start(project, *args):
    # A compiled file may be taken for fresh within the second of a change.
    return Process("", *args, folder=project, PYTHONDONTWRITEBYTECODE="1")


def run(project, *args):
    process = start(project, *args)
    code = process.end(60)
    assert code == 0, process.stderr
    return code


def enqueue(project, count=1):
    code = f"from letters.models import *; [Letter.objects.create() for _ in range({count})]"
    run(project, "shell", "-c", code)


def ran(project):
    return (project / "log").read_text().split() if (project / "log").exists() else []


@pytest.mark.process
def test_a_change_starts_the_worker_again_and_a_typo_does_not_end_it(project):
    process = start(project, "runworker", "--reload")
    try:
        enqueue(project)
        wait_until(lambda: ran(project) == ["one"])
        (project / "letters" / "models.py").write_text("this is no Python")
        wait_until(lambda: "SyntaxError" in process.stderr)
        write(project, "two")
        wait_until(lambda: process.stderr.count("worker.started") == 2)
        enqueue(project)
        wait_until(lambda: ran(project) == ["one", "two"])
        process.send(signal.SIGTERM)
        assert process.end() == 0
        assert process.stderr.count("has stopped (SIGTERM)") == 2
    finally:
        process.kill()


@pytest.mark.process
def test_a_reloader_starts_no_other_reloader_however_it_was_asked_for(project):
    process = start(project, "runworker", "--relo")
    try:
        wait_until(lambda: "worker.started" in process.stderr)
        assert len(process.forked()) == 1
    finally:
        process.kill()


@pytest.mark.process
def test_a_worker_that_ended_is_started_again(project):
    enqueue(project, 2)
    process = start(project, "runworker", "--reload", "--max-jobs", "1")
    try:
        wait_until(lambda: process.stderr.count("worker.started") == 3)
        assert len(ran(project)) == 2
    finally:
        process.kill()


@pytest.mark.process
def test_a_worker_does_not_outlive_its_reloader(project):
    process = start(project, "runworker", "--reload")
    try:
        [left] = wait_until(process.forked)
        wait_until(lambda: "worker.started" in process.stderr)
        process.send(signal.SIGKILL)
        wait_until(lambda: "has stopped (its parent is gone)" in process.stderr)
    finally:
        if not has_ended(left):
            os.kill(left, signal.SIGKILL)
        process.kill()


def test_the_exit_code_of_a_worker_that_failed_is_told_once(caplog, monkeypatch):
    failed = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    failed.wait()
    reloader = Reloader()
    assert all(reloader.check(failed) is failed for _ in range(3))
    assert caplog.text.count("ended with exit code 3") == 1
    monkeypatch.setattr("django_dbqueue.worker.reload.get_child_arguments", list)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: failed)
    assert reloader.check(reloader.start()) is failed
    assert caplog.text.count("ended with exit code 3") == 2


def test_what_a_job_starts_does_not_take_the_reloader_for_its_own(monkeypatch):
    monkeypatch.setenv(PARENT, "1000000000")
    assert take_parent() == 1000000000
    assert PARENT not in os.environ
