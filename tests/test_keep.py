"""Finished jobs: archived and pruned."""

import pytest
from django.utils import timezone

from django_dbqueue.lifecycle import keep
from django_dbqueue.states import Status
from tests.conftest import fresh
from tests.helpers import (
    buried,
    claimed,
    done,
    in_thread,
    overwrite,
    start_all,
    table,
)
from tests.queueapp.models import ArchivedKept, Kept, Note, Pruned

pytestmark = pytest.mark.usefixtures("db_rows")


def hours_ago(hours):
    return timezone.now() - timezone.timedelta(hours=hours)


def finished(model, hours, **columns):
    job = done(model, **columns)
    overwrite(job, finished_at=hours_ago(hours))
    return fresh(job)


def many_done(count):
    Kept.objects.bulk_create(Kept(text=str(n)) for n in range(count))
    for job in Kept.objects.all():
        overwrite(job, status=Status.DONE, finished_at=hours_ago(3))


def test_a_job_that_finished_long_ago_moves_to_the_archive_as_it_is():
    old = finished(Kept, 2, text="old", priority=7, queue="a")
    young = finished(Kept, 0.5)
    assert keep.archive(table(Kept)) == 1
    assert list(Kept.objects.all()) == [young]
    row = ArchivedKept.objects.get()
    for field in ArchivedKept._meta.concrete_fields:
        assert getattr(row, field.attname) == getattr(old, field.attname), field.name
    assert keep.archive(table(Kept)) == 0


def test_only_finished_jobs_are_archived():
    for job in [claimed(Kept), buried(Kept), Kept.objects.create()]:
        overwrite(job, finished_at=hours_ago(9), created_at=hours_ago(9))
    assert keep.archive(table(Kept)) == 0
    assert Kept.objects.count() == 3


def test_a_table_without_an_archive_keeps_its_jobs():
    finished(Note, 9999)
    assert keep.archive(table(Note)) == keep.prune(table(Note)) == 0
    assert Note.objects.count() == 1


def test_many_jobs_are_archived_in_chunks():
    many_done(keep.CHUNK + 7)
    assert [keep.archive(table(Kept)) for _ in range(3)] == [keep.CHUNK, 7, 0]
    assert ArchivedKept.objects.count() == keep.CHUNK + 7


def test_many_archivers_do_each_others_work_once():
    many_done(700)

    def work():
        return sum(keep.archive(table(Kept)) for _ in range(4))

    assert sum(start_all(*[work] * 4)) == 700
    assert (Kept.objects.count(), ArchivedKept.objects.count()) == (0, 700)


def test_a_job_that_was_claimed_in_between_is_not_cancelled_and_leaves_no_copy(monkeypatch):
    """The claim comes between the copy and the delete, where nothing holds the row."""
    job = Kept.objects.create()
    copy = keep.copy_to_archive
    claims = []

    def copy_then(*args):
        copied = copy(*args)
        if not claims:
            claims.append(try_to_claim())
        return copied

    def try_to_claim():
        return in_thread(lambda: Kept.objects.claim() if can_wait() else [])

    def can_wait():
        # Where the row is held the claim finds nothing, or gives up waiting.
        from django.db import connection

        from django_dbqueue.dialects import dialect_of

        if not connection.features.has_select_for_update:
            return False
        with connection.cursor() as cursor:
            cursor.execute(dialect_of(connection).own_session())
        return True

    monkeypatch.setattr(keep, "copy_to_archive", copy_then)
    Kept.objects.all().cancel()
    left = Kept.objects.filter(pk=job.pk).count()
    copies = ArchivedKept.objects.filter(pk=job.pk).count()
    assert left + copies == 1


def test_old_jobs_are_pruned_by_policy():
    finished(Pruned, 3)
    young = finished(Pruned, 0.5)
    waiting = Pruned.objects.create(created_at=hours_ago(9))
    assert keep.prune(table(Pruned)) == 1
    assert set(Pruned.objects.all()) == {young, waiting}


def test_where_there_is_an_archive_it_is_pruned_instead():
    finished(Kept, 3)
    finished(Kept, 1.5)
    keep.archive(table(Kept))
    unarchived = finished(Kept, 3)
    assert keep.prune(table(Kept)) == 1
    assert ArchivedKept.objects.count() == 1
    assert list(Kept.objects.all()) == [unarchived]


def test_buried_jobs_wait_for_a_person_for_ever():
    job = buried(Pruned)
    overwrite(job, finished_at=hours_ago(9999))
    assert keep.prune(table(Pruned)) == 0
