"""A server that leaves a statement of ours without an answer holds no thread for ever."""

import time

import pytest
from django.db import connection

from django_dbqueue.torture.proxy import Way
from tests.kit.processes import lines, wait_for_lines, worker
from tests.kit.silent_server import proxied
from tests.kit.waiting import wait_until
from tests.queueapp.models import Mailed, Note

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif(connection.vendor == "sqlite", reason="it is a file"),
]
TIMING = {"DBQUEUE_BEAT_INTERVAL": "0.5", "DBQUEUE_WORKER_TIMEOUT": "4"}
SILENCE = 6.0  # seconds; a statement of ours is given up after 3
RESUMES_WITHIN = 10.0  # seconds; 3 are promised, and a busy machine is slow


@pytest.mark.parametrize("model", [Note, Mailed])
@pytest.mark.parametrize("way", [Way.SWALLOW, Way.MUTE, Way.HALF_OPEN])
def test_work_resumes_soon_after_a_silence(database_url, log, model, way):
    """Outcomes are written by the finisher's thread, or each by its runner's."""
    with proxied() as silent, worker(silent.url, model._meta.label, **TIMING) as process:
        model.objects.create(log=log)
        wait_for_lines(log, 1)
        model.objects.bulk_create(model(log=log) for _ in range(300))
        wait_for_lines(log, 50)
        silent.proxy.be(way)
        time.sleep(SILENCE)
        silent.proxy.be(Way.PASS)
        healed, last = time.monotonic(), model.objects.create(log=log, queue="healed")
        wait_until(lambda: str(last.pk) in " ".join(lines(log)).split(), seconds=30)
        resumed = time.monotonic() - healed
        wait_until(lambda: not model.objects.exclude(status=2).exists(), seconds=30)
    print(f"{model.__name__} resumed {resumed:.1f} s after {way.name}")
    assert resumed < RESUMES_WITHIN, process.stderr
    assert "taken for dead" not in process.stderr
