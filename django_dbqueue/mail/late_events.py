"""What providers told of mail before it was recorded: noted by the reaper, once it is."""

import time
from typing import Any

from django.db.models import QuerySet

from ..fields import DbNow
from ..lifecycle.execute import try_once_in_transaction
from ..lifecycle.table import Table
from .deliveries import read_entry
from .models import ProviderNote
from .tracking import note

CHUNK = 100
KEEP_NEWS = 3600.0  # seconds
KEEP_NAMES = 30 * 86400.0
SWEEP_EVERY = 3600.0


class LateEvents:
    """Notes up to 100 pieces of news whenever it is called; what nothing was known of for an hour
    is given up, and which mail has which names is forgotten after 30 days."""

    def __init__(self) -> None:
        self._after = 0
        self._sweep_at = 0.0

    def __call__(self, table: Table) -> int:
        """How many rows of its own were done with."""
        rows = ProviderNote.objects.using(table.connection.alias)
        found = rows.filter(email__isnull=True, pk__gt=self._after).order_by("pk")[:CHUNK]
        news = list(found.annotate(now=DbNow()))
        self._after = news[-1].pk if len(news) == CHUNK else 0
        done = [one.pk for one in news if _is_older(one, KEEP_NEWS) or _is_noted(one)]
        return _delete(rows, done) + self._forget_names(rows)

    def _forget_names(self, rows: QuerySet[ProviderNote]) -> int:
        if time.monotonic() < self._sweep_at:
            return 0
        oldest = rows.filter(email__isnull=False).order_by("pk").annotate(now=DbNow())[:CHUNK]
        old = [one.pk for one in oldest if _is_older(one, KEEP_NAMES)]
        if len(old) < CHUNK:
            self._sweep_at = time.monotonic() + SWEEP_EVERY
        return _delete(rows, old)


def _is_noted(one: ProviderNote) -> bool:
    news = read_entry(one.news)
    return news is None or bool(note(one.name, one.address, news, try_once_in_transaction))


def _is_older(one: Any, seconds: float) -> bool:
    return bool((one.now - one.created_at).total_seconds() > seconds)


def _delete(rows: QuerySet[ProviderNote], keys: list[int]) -> int:
    return rows.filter(pk__in=keys).delete()[0] if keys else 0
