"""Gives back the claims of dead children; while that fails, their time to run ends them."""

import logging
import time
from collections.abc import Iterable

from django.db.utils import Error

from ..lifecycle import reap
from ..lifecycle.reap import Trace
from ..lifecycle.table import Table
from ..reaper import Tell
from .board import Running
from .children import Death
from .session import Patience, Session

logger = logging.getLogger("django_dbqueue")


class Relief:
    """The deaths whose claims are still to be given back."""

    def __init__(self, tables: list[Table], session: Session, tell: Tell) -> None:
        self.tables = tables
        self.session = session
        self.tell = tell
        self.waiting: list[Death] = []
        self.patience = Patience("giving back the jobs of a dead child")
        self.left_claims = False

    def turn(self) -> None:
        while self.waiting:
            try:
                self.session.prepare()
                self._give_back(self.waiting[0])
            except Error as error:
                self.session.recover(error)
                self.patience.failed(error)
                return
            self.patience.worked()
            self.waiting.pop(0).child.stacks.close()

    def give_up(self) -> None:
        """The reapers of others do it, once they miss the beats of our row."""
        self.left_claims = self.left_claims or bool(self.waiting)
        self.waiting.clear()

    def _give_back(self, death: Death) -> None:
        for table in self.tables:
            try:
                self._give_back_of(table, death)
            except Error as error:
                if table.dialect.trouble(error):
                    raise
                logger.warning("%s: nothing given back: %s", table.label, error)

    def _give_back_of(self, table: Table, death: Death) -> None:
        """What was stopped by us is charged to nobody but those that were over their time."""
        started = {} if death.child.is_condemned else _traces(death, death.started, table)
        overdue = _traces(death, death.child.overdue, table)
        while reaped := reap.reap_owner(table, death.child.owner_prefix, started, overdue):
            self.tell(table, reaped)


def _traces(death: Death, jobs: Iterable[Running], table: Table) -> dict[str, Trace]:
    now = time.monotonic()
    return {
        job.key: Trace(now - job.started_at, death.child.stacks.of(job.thread))
        for job in jobs
        if (job.using, job.table) == (table.connection.alias, table.label)
    }
