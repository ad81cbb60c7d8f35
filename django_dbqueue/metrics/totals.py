"""The rows in which everything is added up that ever happened: a bounded number of them."""

from functools import partial
from typing import Any

from django.db import connections

from ..lifecycle.execute import retry
from ..models import Total
from ..models.total import OTHERS, UNCHANGED_KEPT

QUEUES_MAX = 100  # of a table, that have a row of their own


def row_of(alias: str, job_table: str, queue: str, minute: int) -> Any:
    """The row to add to, as a queryset; of a further queue that which all of these share."""
    rows = Total.objects.using(alias).filter(job_table=job_table)
    if rows.filter(queue=queue).exists():
        return rows.filter(queue=queue)
    if rows.count() >= QUEUES_MAX:
        queue = OTHERS
    create = partial(Total.objects.using(alias).bulk_create, ignore_conflicts=True)
    fresh = Total(job_table=job_table, queue=queue, changed=minute)
    retry(connections[alias], partial(create, [fresh]))
    return rows.filter(queue=queue)


def forget_unchanged(alias: str, minute: int) -> int:
    """Delete the rows in which nothing was added for 30 days before a minute; how many."""
    rows = Total.objects.using(alias).filter(changed__lt=minute - UNCHANGED_KEPT)
    keys = list(rows.values_list("pk", flat=True))
    return rows.filter(pk__in=keys).delete()[0] if keys else 0
