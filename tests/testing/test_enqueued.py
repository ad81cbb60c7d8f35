"""What a test asks about jobs that were enqueued, and what it is told when there are none."""

import pytest
from django.db import transaction
from django.test.utils import isolate_apps

from django_dbqueue.models import Job
from django_dbqueue.testing import captured_jobs
from tests.kit.jobs import fresh
from tests.queueapp.called import FUNCTIONS, Called, call
from tests.queueapp.models import Fleeting, Kept, Note, Person, Portrait

pytestmark = pytest.mark.one_database


def texts(found):
    return [job.text for job in found]


def test_jobs_are_captured_whichever_way_they_were_enqueued(jobs):
    Note.objects.create(text="before")
    with jobs.captured_jobs(Note) as found:
        Note(text="saved").save()
        Note.objects.enqueue(text="once", dedup_key="k")
        Note.objects.enqueue(text="twice", dedup_key="k")
        Note.objects.bulk_create([Note(text="bulk")])
        Note.objects.enqueue_many([{"text": "many"}, {"text": "more"}])
        Kept.objects.create(text="of another table")
    Note.objects.create(text="after")
    assert texts(found) == ["saved", "once", "bulk", "many", "more"]


def test_jobs_of_all_tables_are_captured(jobs):
    with captured_jobs() as found:
        made = [Note.objects.create(), Kept.objects.create(), Note.objects.create()]
    assert set(found) == set(made)


def test_an_open_transaction_counts_and_one_that_is_undone_does_not(jobs):
    with transaction.atomic():
        with captured_jobs(Note) as found:
            Note.objects.create(text="open")
            with transaction.atomic():
                Note.objects.create(text="undone")
                transaction.set_rollback(True)
        assert texts(found) == ["open"]


def test_what_has_run_and_is_deleted_was_enqueued_all_the_same(jobs):
    with captured_jobs(Fleeting) as found:
        job = Fleeting.objects.create(priority=7)
        assert jobs.run_all(Fleeting) == 1
    assert not Fleeting.objects.exists()
    assert [(one.pk, one.priority) for one in found] == [(job.pk, 7)]
    assert jobs.assert_enqueued(Fleeting, priority=7).pk == job.pk


def test_a_job_is_asserted_by_its_columns(jobs):
    ann = Person.objects.create(code="ann")
    first = Portrait.objects.create(sitter=ann, by_code=ann)
    second = Portrait.objects.create(sitter=ann, queue="slow")
    for columns in ({}, {"sitter": ann}, {"sitter_id": ann.pk, "state": "ready"}, {"by_code": ann}):
        assert jobs.assert_enqueued(Portrait, **columns) == first
    assert jobs.assert_enqueued(Portrait, queue="slow", sitter=ann) == second
    jobs.assert_not_enqueued(Portrait, queue="slow", priority=0)
    jobs.assert_not_enqueued(Note)


def test_a_failure_lists_what_was_enqueued_instead(jobs):
    other = Kept.objects.create(text="hello")
    one, two = (Note.objects.create(text=text, queue="red") for text in ("a", "b"))
    with pytest.raises(AssertionError) as raised:
        jobs.assert_enqueued(Note, text="c", queue="red")
    said, *jobs_said = str(raised.value).splitlines()
    assert said == "no queueapp.Note with text='c', queue='red' was enqueued; enqueued were:"
    assert sorted(jobs_said) == [
        f"  queueapp.Kept {other.pk}, queue='default' ({other})",
        f"  queueapp.Note {one.pk}, text='a', queue='red'",
        f"  queueapp.Note {two.pk}, text='b', queue='red'",
    ]


def test_a_failure_says_that_nothing_was_enqueued(jobs):
    with pytest.raises(AssertionError, match=r"^no queueapp.Note was enqueued, nor anything else$"):
        jobs.assert_enqueued(Note)


def test_a_failure_lists_no_more_than_a_person_reads(jobs):
    Note.objects.enqueue_many([{"text": "long" * 1000}] * 30)
    with pytest.raises(AssertionError) as raised:
        jobs.assert_enqueued(Note, text="c")
    said = str(raised.value).splitlines()
    assert (len(said), said[-1]) == (22, "  and 10 more")
    assert max(map(len, said)) < 150


def test_a_failure_lists_the_jobs_that_should_not_be_there(jobs):
    job = Note.objects.create(text="a")
    Note.objects.create(text="b")
    with pytest.raises(AssertionError) as raised:
        jobs.assert_not_enqueued(Note, text="a")
    assert str(raised.value).splitlines() == [
        "queueapp.Note with text='a' was enqueued:",
        f"  queueapp.Note {job.pk}, text='a'",
    ]


def test_a_column_that_is_not_there_is_no_failed_assertion(jobs):
    with pytest.raises(TypeError, match=r"queueapp.Note has no column 'txt': did you mean 'text'"):
        jobs.assert_not_enqueued(Note, txt="a")
    for model in (Person, Job):
        with pytest.raises(TypeError, match=r"is no queue table"):
            jobs.assert_enqueued(model)


@isolate_apps("tests.queueapp")
def test_a_proxy_means_the_table_that_it_is_of(jobs):
    class Memo(Note):
        class Meta:
            proxy = True
            app_label = "queueapp"

    job = Note.objects.create()
    assert jobs.assert_enqueued(Memo) == job


def test_a_row_that_is_gone_is_named_by_its_key(jobs):
    job = Portrait.objects.create(sitter_id=1234)
    ann = Person.objects.create(code="ann")
    with pytest.raises(AssertionError, match=f"Portrait {job.pk}, sitter=1234"):
        jobs.assert_enqueued(Portrait, sitter=ann)


def paint(size):
    """Called by jobs."""


def print_out(size):
    """Called by others."""


def test_an_app_says_which_jobs_belong_to_what_its_users_enqueue(jobs):
    FUNCTIONS["print_out"] = print_out
    job = call(paint, size=3)
    assert jobs.assert_enqueued(paint) == job
    assert jobs.assert_enqueued(paint, kwargs={"size": 3}) == job
    jobs.assert_not_enqueued(print_out)
    with pytest.raises(AssertionError) as raised:
        jobs.assert_enqueued(paint, kwargs={"size": 4})
    assert str(raised.value).splitlines() == [
        "no call of paint with kwargs={'size': 4} was enqueued; enqueued were:",
        f"  call of paint {job.pk}, kwargs={{'size': 3}}",
    ]
    with pytest.raises(TypeError, match=r"call of paint has no 'size', but kwargs"):
        jobs.assert_enqueued(paint, size=3)
    assert jobs.run_all(Called) == 1
    assert fresh(job).state == "done"
