"""Which rows have the kind of a failure: those that failed, until they are done or kicked."""

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from django_dbqueue.exceptions import Bury
from django_dbqueue.lifecycle.errors import entry
from django_dbqueue.lifecycle.failures import failure_of
from django_dbqueue.states import Status
from tests.kit.jobs import (
    buried,
    claim_one,
    claimed,
    done,
    fresh,
    overwrite,
    reap_overdue,
    reap_owner,
    table,
)
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def failure(job):
    [found] = QuerySet(type(job)).filter(pk=job.pk).values_list("failure", "failed_at")
    return found


def kind(error):
    return failure_of(entry(error, attempt=1, owner=None)).fingerprint


def once_more(job):
    overwrite(job, status=Status.READY, retry_at=None)
    return claim_one()


def test_a_job_that_is_tried_again_has_it_until_it_is_done():
    job = claimed()
    job.fail(ValueError("no file 1"))
    assert failure(job) == (kind(ValueError("no file 9")), None)
    again = once_more(job)
    assert failure(job) == (kind(ValueError("no file 9")), None)
    again.complete()
    assert failure(job) == (None, None)


def test_a_buried_job_has_it_with_the_time_until_somebody_puts_it_back_to_work():
    job = claimed()
    job.fail(Bury(of=ValueError("no file 1")))
    fingerprint, failed_at = failure(job)
    assert fingerprint == kind(ValueError("no file 2"))
    assert abs((failed_at - fresh(job).finished_at).total_seconds()) < 1
    Note.objects.filter(pk=job.pk).kick()
    assert failure(job) == (None, None)


def test_a_job_that_does_well_or_is_parked_by_hand_has_none():
    assert failure(done()) == (None, None)
    job = Note.objects.create()
    Note.objects.filter(pk=job.pk).bury()
    assert failure(job)[0] is None


def test_the_newest_failure_counts():
    job = claimed()
    job.fail(ValueError("no file"))
    once_more(job).fail(KeyError("x"))
    assert failure(job)[0] == kind(KeyError("y"))


def test_a_time_to_run_that_is_over_is_one_kind_whatever_becomes_of_the_job():
    found = []
    for attempts in (1, 3):
        job = claimed()
        overwrite(job, retry_at=fresh(job).created_at, attempts=attempts)
        assert reap_overdue(table()) == 1
        found.append(failure(job))
    assert found[0][0] == found[1][0]
    assert [bool(failed_at) for _, failed_at in found] == [False, True]


def test_a_death_is_one_kind_whichever_of_three_it_is():
    found = set()
    for crashes in (0, 1, 2):
        job = claimed()
        overwrite(job, crashes=crashes, owner=f"gone{crashes}.1")
        assert reap_owner(table(), f"gone{crashes}.", started=[str(job.pk)]) == 1
        found.add(failure(job)[0])
        Note.objects.filter(pk=job.pk).cancel()
    assert len(found) == 1
    assert found != {None}


def test_what_is_lost_with_a_worker_has_not_failed():
    job = claimed()
    assert reap_owner(table(), job.owner.partition(".")[0]) == 1
    assert failure(job) == (None, None)


def test_an_archived_job_has_what_it_had():
    job = claimed(Kept)
    job.bury("no paper")
    Kept.objects.filter(pk=job.pk).cancel()
    assert ArchivedKept.objects.get().failure == kind(Bury("no paper"))


def test_it_is_neither_saved_nor_updated_by_a_caller():
    job = buried()
    job.failure = "x"
    job.save()
    assert failure(job)[0] not in {"x", None}
    with pytest.raises(ValueError, match="failure"):
        job.save(update_fields=["failure"])


def test_an_insert_names_no_column_that_is_empty_in_all_of_its_rows():
    with CaptureQueriesContext(connection) as found:
        Note.objects.bulk_create([Note(), Note(text="b")])
        Note.objects.create()
    inserts = [one["sql"] for one in found if "INSERT" in one["sql"]]
    assert len(inserts) == 2
    assert [
        name for name in ("fail", "owner", "finished_at") for sql in inserts if name in sql
    ] == []
    Note.objects.bulk_create([Note(), Note(dedup_key="a", time_to_run=7)])
    assert set(Note.objects.values_list("dedup_key", "time_to_run")) == {(None, None), ("a", 7)}
