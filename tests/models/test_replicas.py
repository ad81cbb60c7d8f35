"""Routers that read from a replica: jobs are read where they are written."""

import shutil

import django
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from tests.kit.clusters import alias_to
from tests.kit.jobs import claim_one
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = [pytest.mark.usefixtures("db_rows", "south"), pytest.mark.any_database]


class ReadsFromTheSouth:
    """As from a replica, which has not heard of it yet."""

    def db_for_read(self, model, **_hints):
        return "south" if model in (Note, Kept, ArchivedKept) else None

    def db_for_write(self, model, **_hints):
        return "default"


@pytest.fixture
def south(tmp_path, migrated, settings):
    with alias_to(f"sqlite:///{shutil.copy(migrated, tmp_path)}", "south") as alias:
        settings.DATABASE_ROUTERS = [ReadsFromTheSouth()]
        yield alias


def test_what_an_insert_has_left_out_is_read_where_it_was_written():
    with transaction.atomic():
        new = Note.objects.create()
        assert new.created_at is not None
    assert Note.objects.enqueue(delay=60).job.retry_at is not None


def test_what_a_claim_has_left_out_is_read_where_it_was_claimed():
    Note.objects.create()
    job = claim_one()
    assert (job.errors, job.created_at is not None) == ([], True)


def test_a_job_is_read_again_where_it_is(south):
    job = Note.objects.create()
    async_to_sync(job.arefresh_from_db)(fields=["created_at"])
    job.refresh_from_db()
    with pytest.raises(Note.DoesNotExist):
        job.refresh_from_db(using=south)
    if django.VERSION >= (5, 1):
        with pytest.raises(Note.DoesNotExist):
            job.refresh_from_db(from_queryset=Note.objects.using(south))


def test_an_archived_job_is_read_where_it_is():
    Kept.objects.create()
    Kept.objects.using("default").cancel()
    archived = ArchivedKept.objects.using("default").only("queue").get()
    assert archived.created_at is not None
