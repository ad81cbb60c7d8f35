"""The rows in which everything is added up that ever happened: a bounded number of them."""

from functools import partial

from django.db import connections

from ..lifecycle.execute import retry
from ..models import Total
from ..models.total import OTHERS, UNCHANGED_KEPT
from .additions import Addition

QUEUES_MAX = 100  # of a table, that have a row of their own


def addition_to(alias: str, job_table: str, queue: str, minute: int) -> Addition:
    """To the row of a queue; of a further one to that which all of these share."""
    rows = Total.objects.using(alias).filter(job_table=job_table)
    for marks in rows.filter(queue=queue).values_list("written", flat=True)[:1]:
        return Addition(rows.filter(queue=queue), marks)
    if rows.count() >= QUEUES_MAX:
        queue = OTHERS
    create = partial(Total.objects.using(alias).bulk_create, ignore_conflicts=True)
    fresh = Total(job_table=job_table, queue=queue, changed=minute)
    retry(connections[alias], partial(create, [fresh]))
    [marks] = rows.filter(queue=queue).values_list("written", flat=True)
    return Addition(rows.filter(queue=queue), marks)


def forget_unchanged(alias: str, minute: int) -> int:
    """Delete the rows in which nothing was added for 30 days before a minute; how many."""
    rows = Total.objects.using(alias).filter(changed__lt=minute - UNCHANGED_KEPT)
    keys = list(rows.values_list("pk", flat=True))
    return rows.filter(pk__in=keys).delete()[0] if keys else 0
