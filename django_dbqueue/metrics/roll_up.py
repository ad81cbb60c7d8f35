"""What becomes of old minutes: quarters of an hour at first, and then nothing."""

from functools import partial

from django.db import connections
from django.db.models import F, Max, Sum

from ..lifecycle.execute import in_transaction
from ..models import Minute
from ..models.minute import FINE, KEPT, QUARTER, RAN, SUMS, WAITED
from . import failures, totals
from .recorder import this_minute

PRUNED_ROWS_MAX = 1000  # at once
QUARTERS_MAX = 4  # folded at once
LOOK_BACK_MINUTES = 24 * 60  # of an older one only the deletion is awaited


def prune(alias: str) -> int:
    """Delete up to 1,000 minutes that are older than is shown, as many counts of failures, and what
    has not been added to for long; how many of the first two."""
    rows, minute = Minute.objects.using(alias), this_minute(alias)
    totals.forget_unchanged(alias, minute)
    old = rows.filter(minute__lt=minute - KEPT).order_by("minute")
    keys = list(old.values_list("pk", flat=True)[:PRUNED_ROWS_MAX])
    pruned = rows.filter(pk__in=keys).delete()[0] if keys else 0
    return pruned + failures.prune(alias, minute)


def fold(alias: str) -> int:
    """Add up four quarters of an hour, the oldest ones, that charts show as one point; how many.

    Any number of processes may at once.
    """
    for done in range(QUARTERS_MAX):
        end = (this_minute(alias) - FINE) // QUARTER * QUARTER
        start = end - LOOK_BACK_MINUTES
        rows = Minute.objects.using(alias).filter(minute__gte=start, minute__lt=end)
        rows = rows.annotate(rest=F("minute") % QUARTER).filter(rest__gt=0).order_by("minute")
        oldest = rows.values_list("minute", flat=True).first()
        if oldest is None:
            return done
        quarter = oldest // QUARTER * QUARTER
        in_transaction(connections[alias], partial(fold_quarter, alias, quarter))
    return QUARTERS_MAX


def fold_quarter(alias: str, quarter: int) -> None:
    """Add up the quarter of an hour that begins with this minute; to be done in a transaction."""
    rows = Minute.objects.using(alias).filter(minute__gte=quarter, minute__lt=quarter + QUARTER)
    sums = {f"all_{name}": Sum(name) for name in (*SUMS, *WAITED, *RAN)}
    found = rows.values("job_table", "queue").annotate(**sums, all_backlog=Max("backlog"))
    folded = [
        Minute(minute=quarter, **{name.removeprefix("all_"): value for name, value in row.items()})
        for row in found
    ]
    rows.delete()
    Minute.objects.using(alias).bulk_create(folded)
