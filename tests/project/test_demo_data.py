"""``dbqueue demo-data``: every page of the admin has something to show, and no worker runs it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_dbqueue.demo_data import fill
from django_dbqueue.mail.models import ArchivedEmail, Email
from django_dbqueue.models import FailureCount, FailureKind, Minute, Queue
from django_dbqueue.monitor.failures import failures
from django_dbqueue.states import Status
from django_dbqueue.worker.served import all_served
from tests.queueapp.models import Note

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("db_rows")]

TABLES = ["queueapp.Note", "dbqueue_mail.Email"]


def command(*args):
    out = StringIO()
    call_command("dbqueue", *args, stdout=out)
    return out.getvalue()


def test_there_are_examples_in_every_state_with_errors_and_a_history():
    said = {one.table: one for one in fill(100, TABLES)}
    for model in (Note, Email):
        jobs = model.objects.in_queue("demo")
        assert jobs.count() == 100 == said[model._meta.label_lower].jobs
        assert set(jobs.values_list("status", flat=True)) == set(Status)
        assert all(len(job.errors) == 2 for job in jobs.buried())
        assert "Traceback" in jobs.buried().last().errors[0]["traceback"]
        assert Minute.objects.filter(job_table=model._meta.db_table).count() > 1000
        [found] = [one for one in all_served() if one.model is model]
        groups = failures([found]).groups
        assert len(groups) > 1
        assert all(one.day and one.here.buried + one.here.retrying for one in groups)
        assert any(one.hour for one in groups)
    message = Email.objects.in_queue("demo").first().to_message()
    assert message.to[0].endswith("@customer.example")


def test_nobody_may_claim_an_example_and_they_can_be_removed():
    Note.objects.create(text="not an example")
    fill(100, TABLES)
    assert Note.objects.ready().in_queue("demo").exists()
    assert Note.objects.claim(queue="demo") == []
    assert "removed from queueapp.note: 100 jobs" in command("demo-data", *TABLES, "--remove")
    assert Note.objects.get().text == "not an example"
    for model in (Email, ArchivedEmail, Minute, Queue, FailureCount, FailureKind):
        assert not model.objects.exists()


def test_a_queue_demo_that_is_used_already_is_left_as_it_is():
    Note.objects.create(text="not an example", queue="demo")
    Queue.objects.pause(Email._meta.db_table, "demo", None, "ours")
    made, removed = command("demo-data", *TABLES), command("demo-data", *TABLES, "--remove")
    assert made == removed
    for table in ("queueapp.note", "dbqueue_mail.email"):
        assert f"{table}: left out: its queue demo was not made by demo-data" in made
    assert Note.objects.get().status == Status.READY
    assert Queue.objects.get().pause_reason == "ours"
    assert not Minute.objects.exists()


@pytest.mark.parametrize("left", ["archived", "counted"])
def test_what_is_left_of_a_queue_demo_is_not_deleted_either(left):
    if left == "archived":
        ArchivedEmail.objects.create(pk=1, queue="demo", created_at=timezone.now())
    else:
        Minute.objects.create(job_table=Email._meta.db_table, queue="demo", minute=5)
    for flags in ([], ["--remove"]):
        assert "left out" in command("demo-data", "dbqueue_mail.Email", *flags)
    assert ArchivedEmail.objects.count() + Minute.objects.count() == 1


def test_examples_that_were_resumed_are_not_taken_for_examples_any_more():
    fill(20, ["queueapp.Note"])
    Queue.objects.resume(Note._meta.db_table, "demo")
    assert "has been resumed since" in command("demo-data", "queueapp.Note", "--remove")
    assert Note.objects.count() == 20


def test_a_table_of_which_no_example_can_be_made_is_named_and_left_as_it_is():
    said = {one.table: str(one) for one in fill(20, ["shop.Thumbnail", "queueapp.Note"])}
    assert said["shop.thumbnail"] == (
        "shop.thumbnail: left out: its column photo needs a row of shop.Photo"
    )
    assert said["queueapp.note"] == "queueapp.note: 20 jobs in its queue demo"
    assert not Queue.objects.filter(job_table="shop_thumbnail").exists()
    assert not Minute.objects.filter(job_table="shop_thumbnail").exists()


def test_a_queue_that_has_no_room_for_examples_is_named_and_left_as_it_is(settings):
    settings.DBQUEUE = {"QUEUES": {"dbqueue_mail.email": {"max_length": 40}}}
    said = {one.table: str(one) for one in fill(100, TABLES)}
    of_email = said["dbqueue_mail.email"]
    assert "left out: queue demo of dbqueue_mail.email never has room for" in of_email
    assert said["queueapp.note"] == "queueapp.note: 100 jobs in its queue demo"
    assert not Email.objects.exists()
    assert not Queue.objects.filter(job_table=Email._meta.db_table).exists()


@pytest.mark.parametrize("jobs", ["0", "10001"])
def test_more_than_the_limit_is_refused_and_nothing_is_written(jobs):
    with pytest.raises(CommandError, match="--jobs must be at least 1 and at most 10000"):
        command("demo-data", "--jobs", jobs)
    assert not Queue.objects.exists()


def test_an_unknown_table_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(CommandError, match=r"'nonsense' is no queue table; installed are: .*Note"):
        command("demo-data", "nonsense")
