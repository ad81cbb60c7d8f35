"""Gives back the claims of exited children; while that fails, their time to run ends them."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.db.utils import Error

from ..dialects import ErrorKind
from ..lifecycle import reap
from ..lifecycle.reap import Trace
from ..lifecycle.table import Table
from .children import ExitedChild
from .reaper import Tell
from .session import ReconnectBackoff, Session
from .shared_memory import Running

logger = logging.getLogger("django_dbqueue")

Place = tuple[str, str]  # database alias, queue table
Traces = dict[Place, dict[str, Trace]]


@dataclass(frozen=True)
class AbandonedClaims:
    """What a child leaves behind: whose claims, and what is known of the jobs that it ran."""

    owner_prefix: str
    started: Traces = field(default_factory=dict)
    overdue: Traces = field(default_factory=dict)

    @classmethod
    def of(cls, exited: ExitedChild) -> "AbandonedClaims":
        """What was stopped by us is charged to nobody but those that were over their time."""
        child = exited.child
        started = {} if child.is_being_killed else _traces(exited, exited.started)
        overdue = _traces(exited, child.overdue)
        return cls(child.owner_prefix, started, overdue)


def _traces(exited: ExitedChild, jobs: Iterable[Running]) -> Traces:
    now, found = time.monotonic(), Traces()
    for job in jobs:
        trace = Trace(now - job.started_at, exited.child.stacks.of(job.thread))
        found.setdefault((job.using, job.table), {})[job.key] = trace
    return found


class Recovery:
    """The exited children whose claims are still to be given back."""

    def __init__(
        self,
        tables: list[Table],
        session: Session,
        tell: Tell,
        recovered: Callable[[str], object] = lambda _: None,
    ) -> None:
        """``recovered`` hears the owner prefix of each child of whose claims none is left."""
        self.tables = tables
        self.session = session
        self.tell = tell
        self.recovered = recovered
        self.waiting: list[AbandonedClaims] = []
        self.patience = ReconnectBackoff("giving back the jobs of a dead child")

    def turn(self) -> float:
        """Try each; seconds until another try, if claims are left."""
        pause = None
        for exited in list(self.waiting):
            try:
                self.session.prepare()
                self._give_back(exited)
            except Error as error:
                self.session.recover(error)
                pause = pause or self.patience.failed(error)
            else:
                self.waiting.remove(exited)
                self.recovered(exited.owner_prefix)
        if pause is None:
            self.patience.worked()
        return 60.0 if pause is None else pause

    def _give_back(self, exited: AbandonedClaims) -> None:
        """What a lock holds up in one table holds up no other."""
        failure: Error | None = None
        for table in self.tables:
            try:
                self._give_back_of(table, exited)
            except Error as error:
                trouble = table.dialect.error_kind(error)
                if trouble is ErrorKind.AGAIN:
                    failure = failure or error
                elif trouble:
                    raise
                else:
                    logger.warning("%s: nothing given back: %s", table.label, error)
        if failure:
            raise failure

    def _give_back_of(self, table: Table, exited: AbandonedClaims) -> None:
        place = table.connection.alias, table.label
        started, overdue = exited.started.get(place, {}), exited.overdue.get(place, {})
        while reaped := reap.reap_owner(table, exited.owner_prefix, started, overdue):
            self.tell(table, reaped)
