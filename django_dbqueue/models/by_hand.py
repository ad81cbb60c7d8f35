"""What a person does to the jobs of a queryset."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from django.db import models, router

from ..fields import check_name
from ..lifecycle import moving, operator
from ..lifecycle.enqueue import CHECKS, checked_due
from ..lifecycle.operator import Changed, Due
from ..lifecycle.table import Table, table_of

JobT = TypeVar("JobT", bound=models.Model)
ByHand = Callable[[Table, Sequence[operator.Seen]], Changed]


class ByHandQuerySet(models.QuerySet[JobT]):
    """Each verb is a compare-and-set on what was seen, and counts what it changed."""

    def bury(self) -> Changed:
        """Park ready, claimed and delayed jobs for a person."""
        return self._by_hand(operator.bury)

    def kick(self, due: Due | None = None, time_to_run: int | None = None) -> Changed:
        """Put buried and delayed jobs back to work, with all their attempts; now, or at a moment,
        or so many seconds from now, and with another time to run, in seconds, if one is given.
        ``ValidationError`` names what is out of its limits."""
        return self._by_hand(kicking(self.model, due, time_to_run))

    def reschedule(self, due: Due) -> Changed:
        """Have ready and delayed jobs run at a moment, or so many seconds from now, be it sooner or
        later than before. ``ValidationError`` where that is none."""
        return self._by_hand(partial(operator.reschedule, due=checked_due(self.model, due)))

    def prioritize(self, priority: int) -> Changed:
        """Give ready, delayed and buried jobs another priority; 0 is the most urgent."""
        CHECKS["priority"](priority)
        return self._by_hand(partial(operator.prioritize, priority=priority))

    def move(self, queue: str) -> Changed:
        """Put ready, delayed and buried jobs into another queue, or into their lanes of it. Those
        whose dedup key a job there has, those for which it has no room, and those that another
        constraint forbids are skipped and counted: ``twins``, ``no_room`` and ``barred`` of the
        answer."""
        check_name(queue, "queue")
        jobs = self if self.query.is_sliced else self.exclude(queue=queue)
        return jobs._by_hand(partial(moving.move, queue=queue), not_in=queue)

    def release(self) -> Changed:
        """Take claimed jobs away from their owners; one that still runs may run twice."""
        return self._by_hand(operator.release)

    def cancel(self) -> Changed:
        """Take jobs out for good, into the archive where there is one."""
        return self._by_hand(operator.cancel)

    def _by_hand(self, verb: ByHand, not_in: str | None = None) -> Changed:
        """``not_in``: a queue whose jobs are left out, also of a slice."""
        table = table_of(self.model, self._for_writing())
        jobs = self if self.query.is_sliced else self.order_by()
        found = jobs.using(table.connection.alias).values_list("pk", "status", "owner", "queue")
        with table.dialect.decode_leniently():
            # A join lists a job once per row that it meets.
            seen = {
                pk: (table.db_key(pk), status, owner)
                for pk, status, owner, queue in found
                if queue != not_in
            }
        return verb(table, list(seen.values()))

    def _for_writing(self) -> str:
        return self._db or router.db_for_write(self.model)  # type: ignore[attr-defined]


def kicking(model: type[Any], due: Due | None, time_to_run: int | None) -> ByHand:
    """The kick with these values, which are checked."""
    CHECKS["time_to_run"](time_to_run)
    moment = None if due is None else checked_due(model, due)
    return partial(operator.kick, due=moment, time_to_run=time_to_run)
