"""What becomes of old minutes: quarters of an hour at first, and then nothing."""

from functools import partial

from django.db import connections
from django.db.models import F, Max, Sum

from ..lifecycle.execute import in_transaction
from ..models import Minute
from ..models.minute import FINE, KEPT, QUARTER, RAN, SUMS, WAITED
from .recorder import this_minute

PRUNED = 1000  # rows at once
MOST_QUARTERS = 4  # at once
LOOKED_BACK = 24 * 60  # minutes; of an older one only the deletion is awaited


def prune(alias: str) -> int:
    """Delete up to 1,000 minutes that are older than is shown; how many."""
    rows = Minute.objects.using(alias)
    old = rows.filter(minute__lt=this_minute(alias) - KEPT).order_by("minute")
    keys = list(old.values_list("pk", flat=True)[:PRUNED])
    return rows.filter(pk__in=keys).delete()[0] if keys else 0


def fold(alias: str) -> int:
    """Add up four quarters of an hour, the oldest ones, that charts show as one point; how many.

    Any number of processes may at once.
    """
    done = 0
    while done < MOST_QUARTERS and (quarter := _unfolded(alias)) is not None:
        in_transaction(connections[alias], partial(_fold, alias, quarter))
        done += 1
    return done


def _unfolded(alias: str) -> int | None:
    """The beginning of the oldest quarter of an hour that still has minutes."""
    end = (this_minute(alias) - FINE) // QUARTER * QUARTER
    rows = Minute.objects.using(alias).filter(minute__gte=end - LOOKED_BACK, minute__lt=end)
    rows = rows.annotate(rest=F("minute") % QUARTER).filter(rest__gt=0).order_by("minute")
    minute = rows.values_list("minute", flat=True).first()
    return None if minute is None else minute // QUARTER * QUARTER


def _fold(alias: str, quarter: int) -> None:
    rows = Minute.objects.using(alias).filter(minute__gte=quarter, minute__lt=quarter + QUARTER)
    sums = {f"all_{name}": Sum(name) for name in (*SUMS, *WAITED, *RAN)}
    found = rows.values("job_table", "queue").annotate(**sums, all_backlog=Max("backlog"))
    folded = [
        Minute(minute=quarter, **{name.removeprefix("all_"): value for name, value in row.items()})
        for row in found
    ]
    rows.delete()
    Minute.objects.using(alias).bulk_create(folded)
