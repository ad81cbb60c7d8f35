"""How long jobs have waited: asked of one job of a queue, at most once a second.

All claims would have to fetch a time more, which costs every job what people look at now and then.
"""

import logging
import time
from typing import Any

from .. import events
from ..guard import capture
from ..lifecycle.execute import rows
from ..lifecycle.table import Table
from .recorder import RECORDER

logger = logging.getLogger("django_dbqueue")

SAMPLE_SECONDS = 1.0  # between two of a queue, at least
QUEUES_MAX = 100  # whose last sample is remembered
NO_ERRORS: tuple[Any, ...] = ("[]", b"[]", [])  # as drivers read the column


def subscribe() -> None:
    """From here on claims are looked at."""
    events.claimed.subscribe(SAMPLER.look)


class WaitTimeSampler:
    """What the claiming threads of a process look at."""

    def __init__(self) -> None:
        # By worker, table and queue.
        self._next_at: dict[tuple[str, str, str], float] = {}

    def look(self, table: Table, found: dict[str, list[Any]]) -> None:
        """From being enqueued to the first claim; a delay that was asked for is a part of it. Of a
        job that failed, and that a person has let begin once more, nothing is told."""
        sampled = {queue: self._sample(table, queue, jobs) for queue, jobs in found.items()}
        queues = {job.claim_key: queue for queue, job in sampled.items() if job is not None}
        if not queues:
            return
        until = table.dialect.seconds_until
        among, keys = table.dialect.among(table.pk, sorted(queues))
        sql = (
            f"SELECT {table.pk}, {until('dequeued_time')} - {until('created_at')}, errors "
            f"FROM {table.by_key} WHERE {among}"
        )
        with capture() as look:
            for key, seconds, errors in rows(table.connection, sql, keys):
                if seconds is not None and errors in NO_ERRORS:
                    RECORDER.waited(table, queues[key], float(seconds))
        if look.error is not None:
            names = ", ".join(queues.values())
            logger.debug("how long %s %s waited is not known: %s", table.label, names, look.error)

    def _sample(self, table: Table, queue: str, jobs: list[Any]) -> Any:
        """One of a queue's jobs, where it is time for that."""
        if not jobs:
            return None
        worker = jobs[0].claim_owner.partition(".")[0]
        key, now = (worker, table.label, queue), time.monotonic()
        if now < self._next_at.get(key, 0.0):
            return None
        fresh = next((job for job in jobs if is_first_claim(job)), None)
        if fresh is not None:
            if len(self._next_at) >= QUEUES_MAX:
                self._next_at.clear()
            self._next_at[key] = now + SAMPLE_SECONDS
        return fresh


def is_first_claim(job: Any) -> bool:
    return job.attempts == 1 and not job.crashes and not job.losses


SAMPLER = WaitTimeSampler()
