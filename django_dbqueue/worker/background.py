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


# For the finisher's thread of every child.
IN_CHILDREN: list[Writer] = []
# For every database's agent, and a reaper on its own: called with the tables there.
IN_AGENTS: list[Callable[[Sequence[Table]], Writer]] = []


def write_due(writers: Iterable[Writer], session: Session, *, last: bool = False) -> float:
    """Write what is due, or ``last`` of all everything; seconds until more is."""
    for writer in writers:
        if last or writer.due_in() <= 0:
            with capture() as outcome:
                session.prepare()
                writer.write()
            if outcome.error is not None:
                logger.debug("left for another time: %s", outcome.error)
            if isinstance(outcome.error, Error):
                session.recover(outcome.error)
    return min([NOTHING_DUE, *[writer.due_in() for writer in writers]])
