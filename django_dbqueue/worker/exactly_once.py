"""The run of a job whose effects happen exactly once, and what is said of its end."""

import logging
from collections.abc import Callable
from typing import Any

from django.db.utils import Error

from .. import events
from ..dialects import ErrorKind
from ..guard import capture
from ..lifecycle.holder import ClaimState
from ..lifecycle.results import results_or_none
from ..lifecycle.table import Table
from ..models.exactly_once import TRIES, ExactlyOnceRun, Expired
from .buffer import Outcome
from .finisher import Finisher
from .session import ReconnectBackoff

logger = logging.getLogger("django_dbqueue")

PASSING_KINDS = {ErrorKind.AGAIN, ErrorKind.LOST, ErrorKind.READ_ONLY}


def is_apart(table: Table) -> bool:
    """Whether a job's effects may be there although it is not done."""
    return isinstance(table.policy.exactly_once, str)


class WorkerExactlyOnceRun(ExactlyOnceRun):
    """Waits for a database that is away, until the claim says what became of the last try."""

    def __init__(self, table: Table, job: Any, work: Callable[[], object]) -> None:
        super().__init__(table, job, work)
        what = f"running {table.label} {job.claim_key} in one transaction"
        self._backoff = ReconnectBackoff(what)

    def pause_after(self, error: Error) -> float:
        kind = self.error_kind(error)
        if self.tries >= TRIES or kind not in PASSING_KINDS:
            raise error
        if kind is ErrorKind.AGAIN and self.tries:
            return super().pause_after(error)
        if kind is not ErrorKind.AGAIN:
            self.effects.close()
            self.table.connection.close()
        return self._backoff.failed(error)

    def hand_on(self, finisher: Finisher, error: Exception | None, seconds: float) -> None:
        """Tell of the end, and write what the transaction of the effects could not hold."""
        if self.has_committed and error is not None:
            logger.error("%s is done, but not what was to follow", self.job, exc_info=error)
        if self.has_committed and not self.is_apart:
            events.completed(self.table, [(self.job, seconds)])
        elif self.has_committed:
            outcome = Outcome(self.table, self.owner, self.job, None, seconds)
            outcome.results = results_or_none(self.table, self.job)
            finisher.write_now(outcome)
            with capture():
                self.prune_sometimes()
        elif isinstance(error, Expired):
            finisher.write_now(Outcome(self.table, self.owner, self.job, expired=True))
        elif self.claim_state is ClaimState.GONE:
            events.gone(self.table, self.job, self.owner)
        else:
            finisher.write_now(Outcome(self.table, self.owner, self.job, error, seconds))
