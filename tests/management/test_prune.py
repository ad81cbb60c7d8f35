"""``dbqueue prune`` and ``dbqueue failed``: what is old goes, what failed is told."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet

from django_dbqueue.fields import DbNow
from django_dbqueue.models import Job
from django_dbqueue.operate import acting
from django_dbqueue.states import Status
from tests.kit.admin_lists import fill
from tests.kit.command_line import as_json, dbqueue, refused
from tests.kit.jobs import buried, done, fresh, overwrite
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

HOUR = 3600


def ended(job: Any, hours: float) -> Any:
    moment = DbNow(-hours * HOUR)
    failed = {"failed_at": moment} if job.status == Status.BURIED else {}
    overwrite(job, finished_at=moment, **failed)
    return fresh(job)


def texts(model: type[Job] = Note) -> str:
    return "".join(sorted(QuerySet(model).values_list("text", flat=True)))


@pytest.fixture
def rows():
    """Done and failed jobs of 30 hours and of 1 hour; one of each other state, as old as can be."""
    ended(done(text="a"), 30)
    ended(done(text="b"), 1)
    ended(buried(text="c"), 30)
    ended(buried(text="d"), 1)
    for state in (Status.READY, Status.DELAYED, Status.CLAIMED):
        overwrite(Note.objects.create(text="x"), status=state, finished_at=DbNow(-99 * HOUR))


@pytest.mark.parametrize(
    ("ages", "left", "changed"),
    [
        (["--failed=24h"], "abdxxx", 1),
        (["--done=1d"], "bcdxxx", 1),
        (["--failed=24h", "--done=24h"], "bdxxx", 2),
        (["--failed=0", "--done=0"], "xxx", 4),
        (["--failed=31h", "--done=31h"], "abcdxxx", 0),
    ],
)
def test_what_ended_so_long_ago_is_deleted_and_nothing_else(rows, ages, left, changed):
    assert as_json("prune", "queueapp.Note", *ages, "--yes")["changed"] == changed
    assert texts() == left


def test_an_archive_is_pruned_with_what_is_done():
    for text, hours in [("old", 30), ("new", 1)]:
        Kept.objects.create(text=text)
        dbqueue("cancel", "queueapp.Kept", "--yes")
        QuerySet(ArchivedKept).filter(text=text).update(finished_at=DbNow(-hours * HOUR))
    dry = dbqueue("prune", "--done=24h", "--dry-run")
    assert dry == "queueapp.kept, archived: 1 would be changed\n"
    assert dbqueue("prune", "--done=24h", "--yes") == "queueapp.kept, archived: 1 changed\n"
    assert [one.text for one in ArchivedKept.objects.all()] == ["new"]


def test_what_a_worker_deletes_in_the_meantime_is_no_end_of_it():
    QuerySet[ArchivedKept](ArchivedKept).bulk_create(
        ArchivedKept(pk=number, status=Status.DONE) for number in range(1, 1201)
    )
    QuerySet(ArchivedKept).update(finished_at=DbNow(-30 * HOUR))
    raced = []

    def race(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not raced and sql.startswith("DELETE"):
            raced.append(sql)
            execute(sql, params, many, context)  # the worker's own
        return execute(sql, params, many, context)

    with connection.execute_wrapper(race):
        assert as_json("prune", "queueapp.Kept", "--done=24h", "--yes")["changed"] == 700
    assert raced
    assert not ArchivedKept.objects.exists()


def test_a_dry_run_counts_and_deletes_nothing(rows):
    report = as_json("prune", "queueapp.Note", "--failed=0", "--done=0", "--dry-run")
    assert (report["matched"], report["changed"]) == (4, 0)
    assert texts() == "abcdxxx"


def test_many_are_pruned_in_chunks(monkeypatch):
    monkeypatch.setattr(acting, "CHUNK_ROWS", 3)
    fill(10, [Status.DONE, Status.BURIED], finished_at=DbNow(-HOUR))
    QuerySet(Note).filter(failed_at__isnull=False).update(failed_at=DbNow(-HOUR))
    assert as_json("prune", "--done=1m", "--failed=1m", "--yes")["changed"] == 20
    assert not QuerySet(Note).exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--failed AGE"),
        (["--done=0"], "--yes"),
        (["queueapp.Note:slow", "--done=0", "--yes"], "no queue"),
    ],
)
def test_what_is_unclear_or_not_confirmed_deletes_nothing(rows, args, words):
    assert words in refused("prune", *args)
    assert texts() == "abcdxxx"


def test_failed_jobs_are_listed_with_their_errors_the_newest_first():
    first, second = buried(text="1"), buried(text="2", queue="slow")
    overwrite(second, errors=[{"exception": "OSError", "message": "disk \x1b[2J full\nat noon"}])
    Note.objects.create()
    found = as_json("failed", "queueapp.Note:default", "queueapp.Note:slow")
    assert sorted(one["id"] for one in found["failed"]) == [first.pk, second.pk]
    found = as_json("failed", "queueapp.Note")
    assert [one["id"] for one in found["failed"]] == [second.pk, first.pk]
    assert found["failed"][0] == as_json("failed", "queueapp.Note:slow")["failed"][0]
    assert found["failed"][0] == {
        "table": "queueapp.note",
        "database": "default",
        "id": second.pk,
        "queue": "slow",
        "attempts": 1,
        "failed_at": found["failed"][0]["failed_at"],
        "error": "OSError: disk \x1b[2J full\nat noon",
    }
    assert not found["more"]
    head, line, _ = dbqueue("failed").splitlines()
    assert head.split() == ["table", "id", "queue", "attempts", "failed", "at", "(UTC)", "error"]
    assert line.endswith("OSError: disk \\x1b[2J full")


def test_failed_jobs_are_filtered_and_limited():
    kept = ended(buried(text="1"), 5)
    overwrite(kept, errors=[{"exception": "OSError", "message": "disk full"}])
    ended(buried(text="2"), 1)
    ended(buried(text="3"), 1)
    assert [one["id"] for one in as_json("failed", "--error=DISK")["failed"]] == [kept.pk]
    assert [one["id"] for one in as_json("failed", "--older-than=2h")["failed"]] == [kept.pk]
    assert as_json("failed", "--queue=slow") == {"version": 1, "failed": [], "more": False}
    limited = as_json("failed", "--limit=2")
    assert (len(limited["failed"]), limited["more"]) == (2, True)
    assert "--limit" in dbqueue("failed", "--limit=2")


def test_without_failed_jobs_it_says_so():
    assert dbqueue("failed") == "no failed jobs\n"
