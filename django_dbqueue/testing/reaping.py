"""The reaper of a worker in the calling thread."""

import logging
from collections.abc import Callable

from .. import events
from ..guard import capture
from ..lifecycle import held
from ..lifecycle.reap import Reaped
from ..lifecycle.table import Table
from ..models import Worker
from ..worker import job_signals
from ..worker.reaper import Reaper

logger = logging.getLogger("django_dbqueue")


def by_clock(worker_timeout: float) -> Callable[[str], list[str]]:
    """Which workers on a database are silent by its own clock, which a test may have moved."""

    def silent(alias: str) -> list[str]:
        return [worker.pk for worker in Worker.objects.using(alias).silent(worker_timeout)]

    return silent


def make_ready(reaper: Reaper) -> None:
    """All that is due: a pass takes so many of a table, and leaves the rest to the next one."""
    while True:
        done, _ = reaper.turn(judge=lambda: True)
        if done.promoted + done.reaped <= held.CHUNK // 2:
            return


def tell(table: Table, reaped: list[Reaped]) -> None:
    """Log, count and announce at once what a supervisor does in turns."""
    events.reaped(table, reaped)
    if reaped and job_signals.is_reaping_heard(table):
        # Of a supervisor a child does this: what fails there harms nobody.
        with capture() as announcement:
            job_signals.send_reaped(table, reaped)
        if announcement.error is not None:
            logger.error("signals of reaped jobs were not sent", exc_info=announcement.error)
