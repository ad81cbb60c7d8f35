"""Rows that cannot be read, and rows that are gone: put aside, and the worker goes on."""

from contextlib import suppress

import pytest
from django.db import Error, IntegrityError, connection
from django.db.models import QuerySet
from django.utils import timezone

from django_dbqueue.lifecycle import claim as claiming
from django_dbqueue.lifecycle.claim import claim, claim_of_several
from django_dbqueue.lifecycle.execute import rows
from django_dbqueue.lifecycle.suspects import take_over
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from tests.kit.broken_rows import edit, refused
from tests.kit.inline_worker import work_off
from tests.kit.jobs import column_gone, fresh, overwrite, start, table
from tests.kit.processes import worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Batch, Fleeting, Mailed, Note, Sealed, SealedBatch, Shared

pytestmark = pytest.mark.usefixtures("db_rows")

# What a driver, or a field of Django's, cannot make a Python value of: SET clauses.
UNREADABLE = {
    "sqlite": {
        "text that is no UTF-8": "plain = CAST(x'676fff' AS TEXT)",
        "no such day": "day = '2026-13-45'",
    },
    "postgresql": {
        "a day without end": "day = 'infinity'",
        "the year 10000": "day = '10000-01-01'",
        "before our era": "day = '0044-03-15 BC'",
    },
    "mysql": {
        "five weeks on a clock": "hour = '838:59:59'",
    },
}[connection.vendor]


def work_off_in_peace(*args):
    said = work_off(*args)
    for trouble in ("went wrong", "claiming:", "recording"):
        assert trouble not in said
    return said


def buried(model):
    """What a table has put aside, without the columns that nobody can read."""
    return QuerySet(model).filter(status=Status.BURIED).only("errors", "attempts", "owner")


def is_done(model, count):
    return QuerySet(model).filter(status=Status.DONE).count() == count


# Payloads


@pytest.mark.parametrize("what", UNREADABLE)
@pytest.mark.parametrize("batch", ["1", "10"])
def test_a_row_that_cannot_be_fetched_is_buried_in_front_of_a_hundred_good_ones(what, batch):
    jobs = [Sealed.objects.create(priority=5)]
    Sealed.objects.bulk_create([Sealed() for _ in range(100)])
    jobs += [Sealed.objects.create(priority=priority) for priority in (6, 7, 2000)]
    for job in jobs:
        edit(job, UNREADABLE[what])
    said = work_off_in_peace("queueapp.sealed", "--batch-size", batch)
    assert is_done(Sealed, 100)
    found = list(buried(Sealed))
    assert {job.pk for job in found} == {job.pk for job in jobs}
    assert all(job.errors[0]["attempt"] == job.attempts == 1 for job in found)
    assert all(job.last_error and job.owner is None for job in found)
    assert str(said).count("is buried: its row cannot be read") == 4


def test_fields_that_refuse_to_be_read_bury_their_rows_only():
    for model in (Sealed, SealedBatch):
        texts = ["!a", *["fine"] * 50, "!b", "!c", *["fine"] * 50, "!d"]
        model.objects.bulk_create([model(text=text) for text in texts])
    work_off_in_peace("queueapp.sealed", "queueapp.sealedbatch")
    for model in (Sealed, SealedBatch):
        assert is_done(model, 100)
        assert {job.last_error for job in buried(model)} == {
            f"LookupError: no key for !{letter}" for letter in "abcd"
        }


def test_one_job_by_hand_comes_after_the_broken_ones():
    Sealed.objects.bulk_create([Sealed(text=text) for text in ("!a", "!b", "fine")])
    for _ in range(3):
        work_off("queueapp.sealed", "--once")
    assert (buried(Sealed).count(), is_done(Sealed, 1)) == (2, True)


def test_an_error_of_the_statement_is_no_fault_of_a_row(monkeypatch):
    Sealed.objects.create()
    monkeypatch.setattr(type(table().dialect), "now", "NO_SUCH_CLOCK()")
    vars(connection).pop("dbqueue_tables", None)
    with pytest.raises(Exception, match=r"(?i)no_such_clock"):
        claim(table(Sealed), "default", 1, "w.1")
    vars(connection).pop("dbqueue_tables", None)
    assert Sealed.objects.ready().count() == 1


def of_one_queue(table):
    return claim(table, "default", 2, "w.1")


def of_several_queues(table):
    return claim_of_several(table, ["default", "other"], 2, "w.1")


@pytest.mark.parametrize(
    ("model", "column", "claim_some"),
    [
        (Sealed, "plain", of_one_queue),
        (Sealed, "plain", of_several_queues),
        (Shared, "seconds", of_one_queue),
    ],
)
def test_jobs_of_a_table_that_lost_a_column_stay_ready_and_uncharged(model, column, claim_some):
    keys = {"tenant": "a"} if model is Shared else {}
    jobs = [model.objects.create(**keys), model.objects.create(queue="other", **keys)]
    with column_gone(model, column), pytest.raises(Error, match=column):
        claim_some(table(model))
    assert [(fresh(job).status, fresh(job).attempts) for job in jobs] == [(Status.READY, 0)] * 2
    assert not any(fresh(job).errors for job in jobs)
    assert claim_some(table(model))


def test_a_suspect_of_a_table_that_lost_a_column_is_given_back():
    job = Sealed.objects.create()
    overwrite(job, crashes=1)
    claim(table(Sealed), "default", 1, "w.1-1")
    with column_gone(Sealed, "plain"), pytest.raises(Error, match="plain"):
        take_over(table(Sealed), "w", "w.s2-1", 5, alone=False, allowance=0)
    assert (fresh(job).status, fresh(job).attempts, fresh(job).crashes) == (Status.READY, 0, 1)


def test_a_row_that_no_statement_can_write_is_passed_over(database_url):
    """Its constraint came later, or was not heeded, so it cannot even be buried."""
    bad = Sealed.objects.create(plain="odd", priority=5)
    good = [Sealed.objects.create() for _ in range(30)]
    with refused(Sealed), worker(database_url) as process:
        wait_until(lambda: is_done(Sealed, len(good)))
        after = [Sealed.objects.create(), Note.objects.create()]
        wait_until(lambda: all(fresh(job).status == Status.DONE for job in after))
        wait_until(lambda: "claiming: " in process.stderr)
        lines = len(process.stderr.splitlines())
        Note.objects.create()
        wait_until(lambda: is_done(Note, 2))
        assert len(process.stderr.splitlines()) < lines + 10
    assert fresh(bad).status == Status.READY


def test_beside_such_a_row_nothing_is_claimed_that_another_has_by_now(monkeypatch):
    _, good = [Sealed.objects.create(plain=plain) for plain in ("odd", "even")]
    look = rows

    def look_then_lose(*args):
        monkeypatch.setattr(claiming, "rows", look)
        found = look(*args)
        overwrite(good, status=Status.CLAIMED, owner="another.1", retry_at=timezone.now())
        return found

    monkeypatch.setattr(claiming, "rows", look_then_lose)
    with refused(Sealed), suppress(IntegrityError):
        assert claim(table(Sealed), "default", 2, "w.1") == []
    assert fresh(good).owner == "another.1"


def test_next_to_such_a_row_others_with_concurrency_keys_are_claimed():
    bad = Shared.objects.create(tenant="odd", priority=5)
    good = [Shared.objects.create(tenant=tenant) for tenant in ("a", "b", "")]
    with refused(Shared, "tenant"):
        assert [job.pk for job in Shared.objects.claim(limit=10)] == [job.pk for job in good]
    assert fresh(bad).status == Status.READY


GARBAGE = ["", "not json", "[]", "{}", '{"version": 1}', '{"version": 99}', "null", "\x07"]


def test_mail_whose_stored_form_is_garbage_has_failed():
    jobs = {text: Email.objects.create(message=text, subject="Hi") for text in GARBAGE}
    Note.objects.bulk_create([Note() for _ in range(20)])
    work_off_in_peace("dbqueue_mail.email", "queueapp.note")
    for text, job in jobs.items():
        row = fresh(job)
        assert (row.status, row.attempts) == (Status.BURIED, 1), text
        assert row.last_error
    assert is_done(Note, 20)


# Rows that are gone


def delete(*jobs):
    for job in jobs:
        QuerySet(type(job)).filter(pk=job.pk)._raw_delete("default")


@pytest.mark.parametrize("model", [Note, Mailed])
def test_jobs_deleted_while_they_run_or_wait_in_the_buffer_are_no_error(monkeypatch, model):
    running = model.objects.create(priority=1)
    waiting = [model.objects.create() for _ in range(4)]
    after = Note.objects.create(priority=2000)
    ran = []

    def run(job):
        ran.append(job.pk)
        if job == running:
            delete(running, waiting[0], waiting[3])

    monkeypatch.setattr(model, "run", run)
    said = work_off(*{model._meta.label, Note._meta.label}, "--batch-size", "5")
    assert ran[:5] == [job.pk for job in (running, *waiting)]
    assert fresh(after).status == Status.DONE
    assert not model.objects.exclude(status=Status.DONE).exists()
    for trouble in ("went wrong", "ERROR", "again", "Traceback"):
        assert trouble not in said
    assert str(said).count("was deleted while it ran; nothing to write") == 3


def test_jobs_that_fail_and_are_gone_by_then_are_no_error(monkeypatch):
    job, good = Note.objects.create(action="fail"), Note.objects.create()
    fail = Note.do_fail

    def delete_and_fail(self):
        delete(self)
        fail(self)

    monkeypatch.setattr(Note, "do_fail", delete_and_fail)
    said = work_off("queueapp.note")
    assert not Note.objects.filter(pk=job.pk).exists()
    assert fresh(good).status == Status.DONE
    assert "went wrong" not in said
    assert "recording" not in said
    # Nothing was written: it is said of no failure, nor when it is retried.
    assert " failed: " not in said
    assert "was deleted while it ran; nothing to write" in said


def test_a_batch_of_which_some_were_deleted_completes_the_others(database_url, log):
    Batch.objects.bulk_create([Batch(log=log) for _ in range(10)])
    gone = Batch.objects.first()
    jobs = Batch.objects.claim(10)
    delete(gone)
    for job in jobs:
        job.complete()  # the one that is gone is logged
    assert is_done(Batch, 9)


def test_rows_deleted_and_edited_all_the_time_stop_nobody(database_url):
    """Rows vanish in every state of a claim, while outcomes are being written, too."""
    models = (Note, Mailed, Fleeting, Batch)
    for model in models:
        logged = {} if model is Fleeting else {"log": "/dev/null"}
        model.objects.bulk_create([model(**logged) for _ in range(300)])

    def vanish():
        for model in models:
            for key in list(QuerySet(model).values_list("pk", flat=True))[::7]:
                QuerySet(model).filter(pk=key)._raw_delete("default")

    with worker(database_url, "--stop-when-empty", "--threads", "2") as process:
        wait_until(lambda: any(QuerySet(m).filter(status__gt=0).exists() for m in models))
        start(vanish).result()
        assert process.end() == 0, process.stderr
    for model in models:
        assert not QuerySet(model).exclude(status=Status.DONE).exists()
    assert "went wrong" not in process.stderr
    assert "ERROR" not in process.stderr
