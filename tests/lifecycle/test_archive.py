"""Finished jobs: archived and pruned."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import Error
from django.utils import timezone

from django_dbqueue.lifecycle import archive
from django_dbqueue.lifecycle.low_instants import CHUNK
from django_dbqueue.lifecycle.side_rows import gone
from django_dbqueue.states import ARCHIVABLE, Status
from tests.kit.jobs import (
    buried,
    claimed,
    column_gone,
    done,
    fresh,
    overwrite,
    start,
    start_all,
    table,
)
from tests.queueapp.models import ArchivedKept, Kept, Note, Pruned, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def hours_ago(hours):
    return timezone.now() - timedelta(hours=hours)


def finish_times(model, hours):
    """As complete() stamps them: when it finished, and when it leaves the table."""
    retention = model.policy().retention
    leaves = None if retention is None else hours_ago(hours - retention / 3600)
    return {"finished_at": hours_ago(hours), "retry_at": leaves}


def finished(model, hours, **columns):
    job = done(model, **columns)
    overwrite(job, **finish_times(model, hours))
    return fresh(job)


def many_done(count):
    Kept.objects.bulk_create(Kept(text=str(n)) for n in range(count))
    for job in Kept.objects.all():
        overwrite(job, status=Status.DONE, **finish_times(Kept, 3))


def test_a_job_that_finished_long_ago_moves_to_the_archive_as_it_is():
    old = finished(Kept, 2, text="old", priority=7, queue="a")
    young = finished(Kept, 0.5)
    assert archive.archive(table(Kept)) == 1
    assert list(Kept.objects.all()) == [young]
    row = ArchivedKept.objects.get()
    for field in ArchivedKept._meta.concrete_fields:
        assert getattr(row, field.attname) == getattr(old, field.attname), field.name
    assert archive.archive(table(Kept)) == 0


def test_a_job_whose_table_lost_a_column_stays_there_as_it_is():
    old = finished(Kept, 2, text="old")
    with column_gone(Kept, "text"), pytest.raises(Error, match="text"):
        archive.archive(table(Kept))
    assert not ArchivedKept.objects.exists()
    assert fresh(old).text == "old"


def test_an_archive_whose_key_has_another_name_loses_nothing():
    for age in (9, 2):
        finished(Kept, age)
    assert archive.archive(table(Kept)) == 2
    with column_gone(ArchivedKept, "id"), pytest.raises(Error, match="id"):
        archive.prune_archived(table(Kept), 3600 * 5)
    assert ArchivedKept.objects.count() == 2


def test_only_finished_jobs_are_archived():
    for job in [claimed(Kept), buried(Kept), Kept.objects.create()]:
        overwrite(job, finished_at=hours_ago(9), created_at=hours_ago(9))
    assert archive.archive(table(Kept)) == 0
    assert Kept.objects.count() == 3


def test_a_table_without_an_archive_keeps_its_jobs():
    finished(Note, 9999)
    assert archive.archive(table(Note)) == archive.prune(table(Note)) == 0
    assert Note.objects.count() == 1


def test_many_jobs_are_archived_in_chunks():
    many_done(CHUNK + 7)
    assert [archive.archive(table(Kept)) for _ in range(3)] == [CHUNK, 7, 0]
    assert ArchivedKept.objects.count() == CHUNK + 7


def test_many_archivers_do_each_others_work_once():
    many_done(700)

    def work():
        return sum(archive.archive(table(Kept)) for _ in range(4))

    assert sum(start_all(*[work] * 4)) == 700
    assert (Kept.objects.count(), ArchivedKept.objects.count()) == (0, 700)


def test_what_has_moved_on_since_it_was_looked_for_is_neither_copied_nor_deleted():
    old, again = finished(Kept, 2), Kept.objects.create()
    assert archive.take_out(table(Kept), [old.pk, again.pk], ARCHIVABLE, []) == 1
    assert [row.pk for row in ArchivedKept.objects.all()] == [old.pk]
    assert list(Kept.objects.all()) == [again]


def test_a_job_is_claimed_or_cancelled_but_never_both(monkeypatch):
    """A claim comes between the copy to the archive and the delete."""
    job = Kept.objects.create()
    copy = archive.copy_to_archive
    claims = []

    def copy_then_claim(*args):
        copied = copy(*args)
        claims.append(start(Kept.objects.claim))
        claims[0].join(0.5)
        return copied

    monkeypatch.setattr(archive, "copy_to_archive", copy_then_claim)
    Kept.objects.all().cancel()
    got = claims[0].result()
    assert [row.pk for row in ArchivedKept.objects.all()] + [row.pk for row in got] == [job.pk]


def test_old_jobs_are_pruned_by_policy():
    finished(Pruned, 3)
    young = finished(Pruned, 0.5)
    waiting = Pruned.objects.create(created_at=hours_ago(9))
    assert archive.prune(table(Pruned)) == 1
    assert set(Pruned.objects.all()) == {young, waiting}


def test_where_there_is_an_archive_it_is_pruned_instead():
    finished(Kept, 3)
    finished(Kept, 1.5)
    archive.archive(table(Kept))
    unarchived = finished(Kept, 3)
    assert archive.prune(table(Kept)) == 1
    assert ArchivedKept.objects.count() == 1
    assert list(Kept.objects.all()) == [unarchived]


def test_buried_jobs_wait_for_a_person_for_ever():
    job = buried(Pruned)
    overwrite(job, finished_at=hours_ago(9999))
    assert archive.prune(table(Pruned)) == 0


def test_what_is_in_its_table_is_not_gone_where_keys_are_uuids():
    """Drivers give and take them in different forms."""
    here, other = table(Uuid).db_key(Uuid.objects.create().pk), table(Uuid).db_key(uuid4())
    assert gone(table(Uuid), [here, other]) == [other]


def done_before_the_policy(model):
    """A job that ended when nothing said how long it stays."""
    job = finished(model, 999)
    overwrite(job, retry_at=None)
    return job


def test_what_was_done_before_the_table_had_an_archive_stays_until_a_person_cancels_it():
    job = done_before_the_policy(Kept)
    young = finished(Kept, 0.5)
    assert archive.archive(table(Kept)) == 0
    Kept.objects.done().filter(retry_at=None).cancel()
    assert [row.pk for row in ArchivedKept.objects.all()] == [job.pk]
    assert list(Kept.objects.all()) == [young]


def test_what_was_done_before_the_table_was_pruned_stays_until_a_person_prunes_it():
    done_before_the_policy(Pruned)
    young = finished(Pruned, 0.5)
    assert archive.prune(table(Pruned)) == 0
    call_command("dbqueue", "prune", "queueapp.Pruned", "--done", "1d", "--yes")
    assert list(Pruned.objects.all()) == [young]
