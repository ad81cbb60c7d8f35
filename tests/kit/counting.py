"""Counting the jobs of queue tables at once, and what the database itself says of them."""

from django.db import connections

from django_dbqueue.lifecycle.table import Table, table_of
from django_dbqueue.metrics.counting import PARTS, begin, counted
from django_dbqueue.models import Job, QueueCount, TableCount

Counts = dict[tuple[str, int], int]  # by queue and state


def count_all(*models: type[Job], using: str = "default") -> None:
    """Whenever they were last counted."""
    for model in models:
        table = table_of(model, using)
        for part in PARTS:
            row, _ = TableCount.objects.using(using).get_or_create(
                job_table=table.job_table, part=part
            )
            version = begin(using, row)
            assert version is not None
            for _ in counted(table, row, version):
                pass


def stored(model: type[Job], using: str = "default") -> Counts:
    """What was counted last."""
    table = table_of(model, using)
    rows = QueueCount.objects.using(using).filter(job_table=table.job_table)
    return {(queue, status): jobs for queue, status, jobs in rows.values_list(*NAMES)}


def real(model: type[Job], using: str = "default") -> Counts:
    """As COUNT(*) over the whole table says."""
    table: Table = table_of(model, using)
    sql = f"SELECT queue, status, COUNT(*) FROM {table.name} GROUP BY queue, status"
    with connections[using].cursor() as cursor:
        cursor.execute(sql)
        return {(queue, status): int(jobs) for queue, status, jobs in cursor.fetchall()}


NAMES = ("queue", "status", "jobs")
