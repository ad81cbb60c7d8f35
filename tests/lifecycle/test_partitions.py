"""An archive that is partitioned as docs/large-tables.md says: our statements work on it."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from django_dbqueue.lifecycle import archive
from tests.kit.jobs import done, overwrite, table
from tests.queueapp.models import ArchivedKept, Kept

pytestmark = [
    pytest.mark.usefixtures("db_rows"),
    pytest.mark.skipif("connection.vendor == 'sqlite'", reason="it has no partitions"),
]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "large-tables.md"
NAMED = "shop_archivedthumbnail"
HERE = "queueapp_partitioned"
DAY = 86_400


def recipes():
    """The statements that make partitions, and those for another one and without the first."""
    section = PAGE.read_text().partition("## Partitions")[2].partition("\n## ")[0]
    found = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    assert len(found) == 4
    first = 0 if connection.vendor == "postgresql" else 2
    return [
        [one.strip() for one in block.replace(NAMED, HERE).split(";") if one.strip()]
        for block in found[first : first + 2]
    ]


def run(*statements):
    with connection.cursor() as cursor:
        for sql in statements:
            cursor.execute(sql)


@pytest.fixture
def partitioned():
    """The archive of a queue table; what makes another partition and drops the first."""
    old = ArchivedKept._meta.db_table
    make, turn_over = recipes()
    like = f"LIKE {old}" if connection.vendor == "mysql" else f"(LIKE {old} INCLUDING ALL)"
    try:
        run(f"CREATE TABLE {HERE} {like}", *make)
        # Undone before anybody looks which tables hold rows.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ArchivedKept._meta, "db_table", HERE)
            yield turn_over
    finally:
        run(f"DROP TABLE IF EXISTS {HERE}", f"DROP TABLE IF EXISTS {HERE}_first")


def ended(year, month, day=5):
    return timezone.now().replace(year=year, month=month, day=day)


def finished(*instants):
    """Jobs that ended then, and are archived; their keys."""
    jobs = [done(Kept) for _ in instants]
    for job, instant in zip(jobs, instants, strict=True):
        overwrite(job, finished_at=instant, retry_at=timezone.now() - timedelta(hours=1))
    assert archive.archive(table(Kept)) == len(jobs)
    return [job.pk for job in jobs]


def archived():
    """The keys, those first that ended first: not by Django, which remembers a table's name."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {HERE} ORDER BY finished_at")
        return [key for (key,) in cursor.fetchall()]


def test_jobs_are_archived_into_partitions_and_pruned_there(partitioned):
    now = timezone.now()
    old, older, oldest, new = finished(*(now - timedelta(days=n) for n in (3, 300, 400, 0)))
    assert archived() == [oldest, older, old, new]
    assert not Kept.objects.exists()
    assert archive.prune_archived(table(Kept), 350 * DAY) == 1
    assert archive.prune_archived(table(Kept), DAY) == 2
    assert archived() == [new]


def test_a_job_that_never_finished_is_archived_into_a_partition_too(partitioned):
    job = Kept.objects.create()
    assert Kept.objects.all().cancel().changed == 1
    assert archived() == [job.pk]


def test_the_oldest_partition_is_dropped_and_the_others_stay(partitioned):
    _, december, later = finished(ended(2026, 11), ended(2026, 12), ended(2030, 1))
    run(*partitioned)
    [january] = finished(ended(2027, 1))
    assert archived() == [december, january, later]
