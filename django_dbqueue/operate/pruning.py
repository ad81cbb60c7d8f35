"""Deleting old jobs by hand: those that are done or archived, and those that failed."""

from typing import Any

from django.apps import apps
from django.db.models import QuerySet

from ..fields import DbNow
from ..lifecycle.archive import prune_archived
from ..lifecycle.low_instants import LowInstant
from ..lifecycle.operator import Changed
from ..lifecycle.table import table_of
from ..states import Status
from ..worker.served import Served
from .acting import Progress
from .choice import Choice

FRUITLESS_MAX = 20  # looks in a row at rows that others have locked, or have just deleted


def prune_ended(progress: Progress, served: Served, status: Status, seconds: float) -> None:
    """Delete the done, or the buried, jobs of a table that ended so many seconds ago, without a
    copy in the archive."""
    for keyset in Choice(older_than=seconds).keysets(served, {status}):
        progress.do(keyset)


def prune_its_archive(progress: Progress, served: Served, seconds: float) -> None:
    """Delete what was archived of a table and ended so many seconds ago, 500 at a time; what
    somebody has locked is left."""
    table = table_of(served.model, served.using)
    if table.policy.archive is None:
        return
    archived: QuerySet[Any] = QuerySet(apps.get_model(table.policy.archive), using=served.using)
    old = archived.filter(finished_at__lte=DbNow(plus=-seconds))
    if progress.is_dry:
        progress.taken += old.count()
        return
    low, fruitless = LowInstant(), 0
    while fruitless < FRUITLESS_MAX:
        deleted = prune_archived(table, seconds, low)
        progress.taken += deleted
        progress.result = (progress.result or Changed()) + Changed(deleted)
        # A worker deletes the oldest ones, too.
        fruitless = 0 if deleted else fruitless + 1
        if not deleted and not old.exists():
            return
