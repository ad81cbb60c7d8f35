"""gunicorn and uvicorn bring a worker along: one in all, or one each."""

import os
import re
import signal
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.any_database, pytest.mark.process]

GUNICORN = [
    "-m",
    "gunicorn",
    "--workers",
    "2",
    "--bind",
    "127.0.0.1:0",
    "--no-control-socket",
    "site_wsgi",
]
UVICORN = ["-m", "uvicorn", "--port", "0"]


def test_one_of_two_web_processes_has_the_worker_and_the_other_takes_over(site):
    with site.serving(*GUNICORN, mode="one", debug=False) as server:
        wait_until(lambda: site.said().count("Booting worker") == 2)
        first = site.worker()
        holder = site.workers()[first]
        site.runs_a_job()
        assert list(site.workers()) == [first]
        os.kill(holder, signal.SIGKILL)
        second = site.worker(but=first)
        assert site.workers()[second] not in {holder, server.pid}
        site.runs_a_job()
        server.terminate()
        server.wait(60)
        assert site.living() == []


def test_each_of_two_web_processes_has_a_worker(site):
    with site.serving(
        *UVICORN, "--workers", "2", "site_asgi:application", mode="each", debug=False
    ) as server:
        found = wait_until(lambda: len(site.workers()) == 2 and site.workers())
        assert len(set(found.values())) == 2
        site.runs_a_job()
        # A worker that still starts ends at once, and has nothing to say.
        wait_until(lambda: site.said().count("worker.started") == 2)
        server.terminate()
        server.wait(60)
        wait_until(lambda: site.living() == [])
        assert site.said().count("has stopped (SIGTERM)") == 2


def test_an_application_with_a_lifespan_of_its_own_keeps_it(site):
    with site.serving(*UVICORN, "--lifespan", "on", "site_asgi:aware", debug=False) as server:
        site.runs_a_job()
        assert "startup" in site.log()
        server.terminate()
        server.wait(60)
        assert site.log()[-1] == "shutdown"
        assert site.living() == []


def test_without_the_setting_a_server_has_no_worker(site):
    with site.serving(*GUNICORN, mode="off", debug=False) as server:
        [address] = wait_until(lambda: re.findall(r"Listening at: (\S+)", site.said()))
        with pytest.raises(HTTPError, match="404"):
            urlopen(address)  # whatever a process starts, it has by then
        site.shell("pass")  # which takes longer than to start a process
        assert site.workers() == {}
        server.terminate()
        server.wait(60)
        assert site.living() == []
