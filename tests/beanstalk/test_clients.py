"""Clients as people have them, on the server."""

import os
import shutil
import subprocess
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import greenstalk
import pytest
from django.db import transaction

from django_dbqueue.beanstalk.models import TubeJob
from tests.kit.beanstalk_server import serving
from tests.kit.processes import ROOT

pytestmark = pytest.mark.usefixtures("db_rows")
NODE_MODULES = Path(os.environ.get("JACKD_MODULES") or ROOT / "build" / "node" / "node_modules")
EACH = 60
PRODUCERS = 3


@pytest.fixture
def address(database_url):
    with serving(database_url) as (_, port):
        yield "127.0.0.1", port


def test_greenstalk_works_as_its_documentation_says(address):
    with greenstalk.Client(address, use="work", watch=["work", "more"]) as client:
        first = client.put("hello", priority=5, ttr=30)
        second = client.put("grüße", priority=2)
        later = client.put("later", delay=3600)
        job = client.reserve()
        assert (job.id, job.body) == (second, "grüße")
        client.touch(job)
        client.release(job, priority=9, delay=0)
        assert client.reserve().id == first
        client.delete(first)
        job = client.reserve(timeout=0)
        client.bury(job)
        assert client.peek_buried().id == client.stats_job(job)["id"] == second
        assert client.kick(10) == 1
        assert client.peek_ready().id == second
        client.kick_job(later)
        assert client.stats_tube("work")["current-jobs-ready"] == 2
        assert {"default", "work", "more"} <= set(client.tubes())
        assert client.watching() == ["work", "more"]
        client.pause_tube("work", 3600)
        with pytest.raises(greenstalk.TimedOutError):
            client.reserve(timeout=0)
        client.delete(client.reserve_job(second))
        with pytest.raises(greenstalk.NotFoundError):
            client.delete(first)
        with pytest.raises(greenstalk.JobTooBigError):
            client.put("x" * 65536)
        assert client.stats()["current-jobs-delayed"] == 0
    assert TubeJob.objects.count() == 1


def produce(address, number):
    with greenstalk.Client(address, use="t") as client:
        for position in range(EACH):
            client.put(f"{number}-{position}")


def consume(address, are_done, gives_back):
    """Until there is no more; the bodies."""
    found = []
    with greenstalk.Client(address, watch="t") as client:
        while True:
            try:
                job = client.reserve(timeout=1)
            except greenstalk.TimedOutError:
                if are_done.is_set():
                    return found
                continue
            if gives_back and client.stats_job(job)["reserves"] == 1:
                client.release(job)
                continue
            client.delete(job)
            found.append(job.body)


def test_what_many_produce_many_consume_once(address):
    """Three programs and Django produce, four programs consume, one of which gives some back."""
    are_done = threading.Event()
    with ThreadPoolExecutor(8) as pool:
        consuming = [pool.submit(consume, address, are_done, n == 0) for n in range(4)]
        producing = [pool.submit(produce, address, number) for number in range(PRODUCERS)]
        try:
            for position in range(EACH):
                TubeJob.objects.enqueue(queue="t", body=f"django-{position}".encode())
            for one in producing:
                one.result()
        finally:
            are_done.set()  # else the pool would wait for the consumers for ever
        consumed = Counter(body for one in consuming for body in one.result())
    names = [*map(str, range(PRODUCERS)), "django"]
    assert consumed == Counter(f"{name}-{position}" for name in names for position in range(EACH))
    assert not TubeJob.objects.exists()


@pytest.mark.skipif(
    shutil.which("node") is None or not (NODE_MODULES / "jackd").exists(),
    reason="node or its package jackd is missing: make jackd",
)
def test_a_node_program_works_off_what_django_enqueues_and_answers(address):
    for position in range(20):
        with transaction.atomic():
            TubeJob.objects.enqueue(queue="asked", body=f"grüße {position}".encode())
    script = ROOT / "tests" / "kit" / "jackd_client.js"
    environment = os.environ | {"NODE_PATH": str(NODE_MODULES)}
    command = ["node", str(script), str(address[1]), "asked", "answered"]
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    found = [bytes(job.body).decode() for job in TubeJob.objects.filter(queue="answered")]
    assert sorted(found) == sorted(f"node grüße {position}" for position in range(20))
    assert not TubeJob.objects.filter(queue="asked").exists()
