"""``runworker --probe-port``: what Kubernetes and Prometheus are told of a worker."""

import os
import signal
import socket
import sys
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from django.core.management import CommandError, call_command
from prometheus_client.parser import text_string_to_metric_families

from django_dbqueue.metrics.catalogue import OF_QUEUES, OF_WORKER
from django_dbqueue.metrics.worker_page import WorkerPage
from django_dbqueue.models import Worker
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.probe import PortTaken, Probe
from django_dbqueue.worker.probe_page import PHASE, Phase, ProbePage, hangs, troubles
from django_dbqueue.worker.served import all_served
from tests.kit.jobs import table_locked
from tests.kit.processes import QUICK, has_ended, wait_for_lines, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.fixture
def port():
    """One that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ask(port, path):
    """The status and the text; 0 where nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, HTTPException) as error:
        return 0, str(error)


def becomes(port, path, status):
    """What is said once the answer has this status."""
    return wait_until(lambda: (said := ask(port, path))[0] == status and said[1])


def families(text):
    return {one.name: one for one in text_string_to_metric_families(text)}


def test_a_worker_says_whether_it_lives_and_is_ready_and_what_it_does(database_url, log, port):
    Note.objects.create(log=log, seconds=60)
    given = "queueapp.Note", "--probe-port", str(port), "--shutdown-timeout", "0"
    with worker(database_url, *given, **QUICK) as process:
        assert becomes(port, "/live", 200) == "alive\n"
        assert becomes(port, "/ready", 200) == "ready\n"
        wait_for_lines(log, 1)
        assert ask(port, "/ready?verbose") == (200, "ready\n")
        status, text = ask(port, "/nowhere")
        assert status == 404
        assert "/live /metrics /metrics/worker /ready" in text

        def runs():
            [one] = families(ask(port, "/metrics/worker")[1])["dbqueue_worker_running_jobs"].samples
            return one.value == 1

        wait_until(runs)
        told = families(becomes(port, "/metrics", 200))
        assert told.keys() == OF_QUEUES.keys() | OF_WORKER.keys()
        states = {
            one.labels["state"]: one.value
            for one in told["dbqueue_jobs"].samples
            if one.labels["table"] == "queueapp.note" and one.labels["queue"] == "default"
        }
        assert states == {"ready": 0, "claimed": 1, "delayed": 0, "buried": 0}
        with worker(database_url, *given) as other:
            assert other.end() == 1
            assert f"--probe-port: cannot listen on 127.0.0.1 port {port}" in other.stderr
        process.send(signal.SIGTERM)
        assert process.end() == 0
    assert ask(port, "/live")[0] == 0


def test_what_answers_is_replaced_where_it_dies_and_leaves_with_its_supervisor(database_url, port):
    with worker(database_url, "--probe-port", str(port), **QUICK) as process:
        becomes(port, "/ready", 200)
        [first] = process.probes()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: has_ended(first))
        becomes(port, "/ready", 200)
        [second] = process.probes()
        process.send(signal.SIGKILL)
        wait_until(lambda: has_ended(second))
    wait_until(lambda: ask(port, "/live")[0] == 0)


def test_a_supervisor_that_hangs_is_not_alive(database_url, port):
    with worker(database_url, "--probe-port", str(port), **QUICK) as process:
        becomes(port, "/ready", 200)
        process.send(signal.SIGSTOP)
        assert "its supervisor has done nothing for" in becomes(port, "/live", 503)
        assert ask(port, "/ready")[0] == 503
        process.send(signal.SIGCONT)
        assert becomes(port, "/live", 200) == "alive\n"


def test_a_worker_whose_beats_cannot_be_written_lives_and_is_not_ready(database_url, port):
    with worker(database_url, "--probe-port", str(port), **QUICK):
        becomes(port, "/ready", 200)
        with table_locked(Worker):
            said = becomes(port, "/ready", 503)
            assert "database default: no beat was written for" in said
            assert ask(port, "/live") == (200, "alive\n")
            told = families(ask(port, "/metrics/worker")[1])
            assert told["dbqueue_worker_beat_age_seconds"].samples[0].value > 3
        becomes(port, "/ready", 200)


@pytest.mark.any_database
def test_a_worker_that_waits_for_its_database_lives_and_is_not_ready():
    page = ProbePage(["default"])
    assert hangs(page, 3) == []
    assert troubles(page, 3) == ["it starts: it waits for its databases, or for migrations"]


@pytest.mark.any_database
def test_a_worker_is_ready_only_with_all_its_databases_and_until_it_stops():
    page = ProbePage(["default", "other"])
    page.numbers[PHASE], page.times[0] = Phase.RUNNING, time.monotonic()
    page.note_beat("default", time.monotonic())
    assert troubles(page, 3) == ["database other: no beat was written yet"]
    page.note_beat("other", time.monotonic())
    assert troubles(page, 3) == []
    page.numbers[PHASE] = Phase.STOPPING
    assert troubles(page, 3) == ["it stops"]
    assert hangs(page, 3) == []


@pytest.mark.any_database
def test_without_the_package_the_page_of_metrics_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "django_dbqueue.metrics.prometheus", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    page = WorkerPage(ProbePage(["default"]), Options(served=all_served()))
    answer = page.answer("")
    assert answer.status == 501
    assert b"install django-dbqueue[metrics]" in answer.body


@pytest.mark.any_database
@pytest.mark.parametrize("host", ["é" * 300, "nowhere.invalid"])
def test_a_host_that_is_none_is_refused(host):
    with pytest.raises(PortTaken, match="--probe-port: "):
        Probe(Options(served=all_served(), probe_port=8080, probe_host=host)).open()


@pytest.mark.any_database
def test_a_host_without_a_name_is_refused():
    with pytest.raises(ValueError, match="probe_host must not be empty"):
        Options(served=all_served(), probe_host="")


@pytest.mark.any_database
@pytest.mark.parametrize("number", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(number):
    with pytest.raises(CommandError, match=r"probe.port"):
        call_command("runworker", f"--probe-port={number}", "--verbosity", "0")
