"""What others want written now and then by a worker's processes, as metrics do.

Nothing waits for it, and nobody tries hard: what fails is left for another time.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from django.db.utils import Error

from ..guard import NOTHING_DUE, capture
from ..lifecycle.table import Table
from .session import Session

logger = logging.getLogger("django_dbqueue")


class Writer(Protocol):
    """It writes on the calling thread's connections, which give up on locks soon."""

    def due_in(self) -> float:
        """Seconds until it wants to write."""

    def write(self) -> None:
        """What it raises is logged."""


# Of every process that does something to jobs: a child's finisher writes, an agent, a lone reaper.
WRITERS: list[Writer] = []
# For every database's agent, too: called with the tables there.
TABLE_WRITERS: list[Callable[[Sequence[Table]], Writer]] = []
RETRY_SECONDS = 1.0  # until what could not be written is tried again, at least


def write_due(writers: Iterable[Writer], session: Session, *, last: bool = False) -> float:
    """Write what is due, or ``last`` of all everything; seconds until more is."""
    waits = [NOTHING_DUE]
    for writer in writers:
        error = None
        if last or writer.due_in() <= 0:
            with capture() as outcome:
                session.prepare()
                writer.write()
            error = outcome.error
        if isinstance(error, Error):
            logger.debug("left for another time: %s", error)
            session.recover(error)
        elif error is not None:
            logger.error("what is to be written now and then went wrong", exc_info=error)
        waits.append(writer.due_in() if error is None else max(RETRY_SECONDS, writer.due_in()))
    return min(waits)
