"""Saving what run() changed, without putting back a stale owner or status."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, models, transaction
from django.db.models import F
from django.db.models.signals import post_save
from django.test.utils import isolate_apps
from django.utils import timezone

from django_dbqueue.exceptions import ClaimLost
from django_dbqueue.lifecycle.table import LIFECYCLE_COLUMNS, table_of
from django_dbqueue.models import Job
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, claimed, done, fresh, lifecycle_of, overwrite, steal
from tests.queueapp.models import Kept, Note, Uuid

pytestmark = pytest.mark.usefixtures("db_rows")


def test_save_inside_a_claim_writes_the_jobs_own_columns():
    job = claimed(text="before", queue="a")
    job.text, job.priority, job.seconds = "after", 7, 1.5
    job.save()
    row = fresh(job)
    assert (row.text, row.priority, row.seconds) == ("after", 7, 1.5)
    job.complete()
    assert fresh(job).status == Status.DONE


@pytest.mark.parametrize("claim_first", [True, False])
def test_save_leaves_the_lifecycle_alone(claim_first):
    Kept.objects.enqueue(dedup_key="k", text="before")
    job = claim_one(Kept) if claim_first else Kept.objects.get()
    before = lifecycle_of(job)
    job.status, job.owner, job.attempts, job.crashes = Status.BURIED, "me", 99, 99
    job.retry_at = job.dequeued_time = job.finished_at = timezone.now()
    job.errors, job.dedup_key, job.text = ["nonsense"], "other", "after"
    job.save()
    assert lifecycle_of(job) == before
    assert fresh(job).text == "after"


def test_save_leaves_alone_what_moved_on_since_the_job_was_read():
    Note.objects.create()
    read = Note.objects.get()
    claimer = claim_one()
    before = lifecycle_of(read)
    read.text = "written by a bystander"
    read.save()
    assert lifecycle_of(read) == before
    claimer.complete()


def test_a_zombie_cannot_save():
    job = claimed(text="before")
    steal(job)
    before = lifecycle_of(job)
    job.text = "after"
    ways: list[dict[str, Any]] = [{}, {"update_fields": ["text"]}, {"force_update": True}]
    for options in ways:
        with pytest.raises(ClaimLost):
            job.save(**options)
    assert lifecycle_of(job) == before
    assert fresh(job).text == "before"


def test_a_zombie_whose_job_was_given_back_cannot_save():
    job = claimed(text="before")
    overwrite(job, status=Status.READY, owner=None)
    job.text = "after"
    with pytest.raises(ClaimLost):
        job.save()
    assert fresh(job).text == "before"


def test_what_a_zombie_did_beside_its_save_is_rolled_back():
    job = claimed(text="before")
    steal(job)

    def work():
        with transaction.atomic():
            Note.objects.create(text="beside")
            job.save()

    with pytest.raises(ClaimLost):
        work()
    assert not Note.objects.filter(text="beside").exists()


@pytest.mark.parametrize("read", [claim_one, Note.objects.get])
def test_save_of_a_deleted_job_does_not_bring_it_back(read):
    Note.objects.create()
    job = read()
    Note.objects.all().delete()
    with pytest.raises((ClaimLost, DatabaseError)):
        job.save()
    assert not Note.objects.exists()


@pytest.mark.parametrize("column", sorted(LIFECYCLE_COLUMNS | {"created_at"}))
def test_update_fields_must_not_name_a_lifecycle_column(column):
    job = claimed(text="before")
    before = lifecycle_of(job)
    job.text = "after"
    with pytest.raises(ValueError, match=column):
        job.save(update_fields=["text", column])
    assert (fresh(job).text, lifecycle_of(job)) == ("before", before)


def test_update_fields_writes_only_what_it_names():
    job = claimed(text="before", log="before")
    job.text = job.log = "after"
    job.save(update_fields=["text"])
    assert (fresh(job).text, fresh(job).log) == ("after", "before")


def test_a_finished_job_can_be_saved():
    job = claimed()
    job.complete()
    job.text = "an afterthought"
    job.save()
    assert (fresh(job).text, fresh(job).status) == ("an afterthought", Status.DONE)


@pytest.mark.parametrize("column", sorted(LIFECYCLE_COLUMNS))
def test_a_queryset_refuses_to_write_lifecycle_columns(column):
    job = done()
    before = lifecycle_of(job)
    with pytest.raises(ValueError, match=column):
        Note.objects.update(**{column: before[column]})
    with pytest.raises(ValueError, match=column):
        Note.objects.bulk_update([job], [column])
    with pytest.raises(ValueError, match=column):
        Note.objects.filter(pk=job.pk).update(text="x", **{column: None})
    assert lifecycle_of(job) == before


def test_a_queryset_writes_other_columns():
    jobs = [Note.objects.create(text="a"), Note.objects.create(text="b")]
    assert Note.objects.update(text="c", priority=F("priority") + 1) == 2
    jobs = list(Note.objects.all())
    for job in jobs:
        job.text = f"d{job.pk}"
    assert Note.objects.bulk_update(jobs, ["text"]) == 2
    assert [fresh(job).text for job in jobs] == [f"d{job.pk}" for job in jobs]
    assert {job.priority for job in map(fresh, jobs)} == {1025}


def test_update_or_create_makes_and_then_changes_a_job():
    job, created = Note.objects.update_or_create(text="x", defaults={"log": "one"})
    assert created
    claim_one()
    before = lifecycle_of(job)
    again, created = Note.objects.update_or_create(text="x", defaults={"log": "two"})
    assert (again.pk, created) == (job.pk, False)
    assert (fresh(job).log, lifecycle_of(job)) == ("two", before)
    with pytest.raises(ValueError, match="status"):
        Note.objects.update_or_create(text="x", defaults={"status": Status.READY})


@pytest.mark.parametrize(("column", "value"), [("queue", "a "), ("queue", "x" * 201)])
def test_a_bad_name_is_refused_later_too(column, value):
    job = Note.objects.create()
    setattr(job, column, value)
    with pytest.raises(ValidationError, match=column):
        job.save()
    with pytest.raises(ValidationError, match=column):
        Note.objects.update(**{column: value})
    assert fresh(job).queue == "default"


def test_what_was_given_for_a_column_with_a_default_of_the_database_stays():
    made = timezone.now() - timedelta(days=1)
    job = Note(created_at=made)
    job.save()
    assert (job.created_at, fresh(job).created_at) == (made, made)


def test_whoever_is_told_of_a_new_job_can_read_all_of_it():
    seen = []

    def receiver(instance, created, **_):
        seen.append((created, instance.pk, instance.created_at, instance.text))

    post_save.connect(receiver, sender=Note)
    try:
        job = Note.objects.create(text="new")
    finally:
        post_save.disconnect(receiver, sender=Note)
    assert seen == [(True, job.pk, fresh(job).created_at, "new")]


def test_a_key_that_was_given_is_kept():
    job = Uuid.objects.create(text="a")
    assert Uuid.objects.get().pk == job.pk


@isolate_apps("tests.queueapp")
@pytest.mark.parametrize(
    "enqueue",
    [
        lambda model: (model.objects.create(), True),
        lambda model: model.objects.enqueue(dedup_key="k"),
    ],
    ids=["create", "enqueue once"],
)
def test_a_key_that_the_database_makes_is_known_afterwards(enqueue):
    class Keyed(Job):
        id = models.CharField(primary_key=True, max_length=40, db_default=models.Value("abc"))

        class Meta(Job.Meta):
            app_label = "queueapp"

    assert not table_of(Keyed, "default").is_plain
    with connection.schema_editor() as editor:
        editor.create_model(Keyed)
    try:
        job, created = enqueue(Keyed)
        assert created
        assert Keyed.objects.filter(pk="abc").exists()
        if connection.vendor != "mysql":  # of our own INSERT it tells no keys but numbers
            assert job.pk == "abc"
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Keyed)
