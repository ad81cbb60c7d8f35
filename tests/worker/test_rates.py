"""Queues that have a rate: how often their jobs start, whoever starts them."""

import signal
import time
from pathlib import Path

import pytest

from tests.kit.processes import worker
from tests.kit.rates import figures
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note


def times_in(log: Path) -> list[float]:
    return sorted(float(line) for line in log.read_text().split()) if log.exists() else []


@pytest.mark.timing
@pytest.mark.proof
def test_four_workers_together_keep_a_rate_and_use_nearly_all_of_it(
    db_rows, database_url, tmp_path, full
):
    seconds, log = (20 if full else 4), tmp_path / "log"
    Note.objects.bulk_create(
        [Note(action="note_time", log=str(log)) for _ in range(50 * (seconds + 6))]
    )
    rate = {"DBQUEUE_QUEUES": '{"queueapp.note": {"rate": "50/s"}}'}
    with worker(database_url, "queueapp.note", "--processes", "4", **rate) as process:
        wait_until(lambda: times_in(log))
        began = times_in(log)[0]
        wait_until(
            lambda: time.monotonic() > began + seconds + 1.5, seconds=seconds + 30, every=0.2
        )
        process.send(signal.SIGTERM)
        process.end()
    most, share = figures(times_in(log), 50, until=began + 1 + seconds, since=began + 1)
    print(f"50/s, 4 processes, {seconds} s: most in any second {most}, {share:.1%} used")
    assert most <= 50
    assert share > (0.95 if full else 0.8)
