"""A pause of a whole table, or of everything, and who works in spite of it."""

import time
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connections

from django_dbqueue.diagnose import explain
from django_dbqueue.diagnose.check import check_integrity
from django_dbqueue.management.commands.runworker import Command
from django_dbqueue.models import Queue
from django_dbqueue.monitor.alerts import alerts
from django_dbqueue.testing import InlineWorker
from django_dbqueue.worker.startup import run_once
from tests.kit.inline_worker import work_off
from tests.kit.jobs import table
from tests.kit.overview import OVERVIEW, look, text_of
from tests.kit.processes import QUICK, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Fleeting, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def options(*args):
    command = Command()
    given = command.create_parser("manage.py", "runworker").parse_args(args)
    return command.options(vars(given))


def done():
    """How many of the two notes and the two fleeting jobs."""
    work_off("queueapp.Note", "queueapp.Fleeting")
    return 2 - Note.objects.ready().count(), 2 - Fleeting.objects.ready().count()


@pytest.fixture
def jobs(db_rows):
    for queue in ("default", "mail"):
        Note.objects.create(queue=queue)
        Fleeting.objects.create(queue=queue)


@pytest.mark.usefixtures("jobs")
def test_nothing_is_claimed_while_everything_is_paused():
    Queue.objects.pause_everything(reason="tea")
    assert done() == (0, 0)
    assert run_once(options("queueapp.Note")) == 0
    assert Note.objects.claim(queue=None) == []
    Queue.objects.resume_everything()
    assert done() == (2, 2)


@pytest.mark.usefixtures("jobs")
def test_a_pause_of_everything_ends_by_itself():
    Queue.objects.pause_everything(seconds=0)
    assert done() == (2, 2)


@pytest.mark.usefixtures("jobs")
def test_force_works_in_spite_of_a_pause_of_everything_but_not_of_others():
    Queue.objects.pause_everything()
    Note.objects.pause("mail")
    Fleeting.objects.pause("*")
    assert run_once(options("queueapp.Fleeting", "--force")) == 0
    with InlineWorker("queueapp.Note", "queueapp.Fleeting", "--force") as worker:
        worker.run()
    assert [job.queue for job in Note.objects.done()] == ["default"]
    assert Fleeting.objects.ready().count() == 2
    assert run_once(options("queueapp.Note", "--force")) == 0
    Note.objects.resume("mail")
    assert run_once(options("queueapp.Note", "--force")) == 1


@pytest.mark.usefixtures("jobs")
def test_a_pause_of_a_whole_table_is_no_other_tables():
    Note.objects.pause("*", reason="tea")
    assert done() == (0, 2)
    assert "any name" in Note.objects.paused_queues()
    assert "default" not in Fleeting.objects.paused_queues()
    Note.objects.resume("*")
    assert done() == (2, 2)


@pytest.mark.usefixtures("jobs")
def test_what_is_paused_by_itself_stays_so_when_everything_goes_on():
    Note.objects.pause("mail")
    Queue.objects.pause_everything()
    Queue.objects.resume_everything()
    assert done() == (1, 2)


def test_a_pause_of_everything_is_told_where_people_look(browser):
    Queue.objects.pause_everything(reason="moving house")
    job, _ = Note.objects.create(), Note.objects.create(queue="mail")
    [waits, *_] = explain(table(), str(job.pk)).sentences
    assert waits == "Everything is paused until somebody resumes it (moving house)."
    [alert] = alerts(look())
    told = "Everything on default is paused until somebody resumes it: moving house."
    assert alert.text == f"{told} Ready jobs that wait: 2."
    assert "manage.py dbqueue resume --all ends that" in alert.advice
    page = browser.get(OVERVIEW)
    assert text_of(page).count("Everything on default is paused") == 1
    assert "dbqueue resume --all" in text_of(page)
    assert b'aria-label="Resume default"' not in page.content
    out = StringIO()
    call_command("dbqueue", "status", stdout=out)
    assert "paused" in out.getvalue()
    assert check_integrity("default", 20).is_clean


def test_a_pause_of_a_table_is_told_where_people_look():
    Note.objects.pause("*", 600, "tea")
    job, _ = Note.objects.create(), Note.objects.create(queue="mail")
    [waits, *_] = explain(table(), str(job.pk)).sentences
    assert waits.startswith("Its whole table is paused until 20")
    assert "(tea)" in waits
    assert [one.queue for one in look().queues] == ["default", "mail"]
    [alert] = alerts(look())
    assert alert.text.startswith("All of queueapp.note is paused until 20")
    assert alert.text.endswith(": tea. Ready jobs that wait: 2.")


def test_a_pause_of_a_table_ends_on_the_page_of_the_queues(browser):
    Note.objects.pause("*", reason="tea")
    Note.objects.create()
    page = browser.get(OVERVIEW).content
    assert b'name="queue" value="*"' in page
    browser.post(f"{OVERVIEW}resume/", {"table": "queueapp.note", "queue": "*"})
    assert Note.objects.paused_queues() == set()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"seconds": -1}, "seconds must be between 0 and"),
        ({"seconds": "10"}, "seconds must be between 0 and"),
        ({"reason": "x" * 501}, "reason must be text of at most 500 characters"),
    ],
)
def test_a_pause_that_no_database_could_hold_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Queue.objects.pause_everything(**given)
    assert not Queue.objects.exists()


@pytest.mark.each_database
def test_workers_that_are_busy_rest_soon_and_go_on_after_it(database_url):
    connections["default"].close()
    with worker(database_url, "queueapp.Note", "--batch-size=2", **QUICK):
        Note.objects.enqueue_many({"seconds": 0.02} for _ in range(3000))
        wait_until(lambda: Note.objects.done().count() > 10)
        Queue.objects.pause_everything()

        def is_at_rest():
            before = Note.objects.done().count()
            time.sleep(0.5)
            return Note.objects.done().count() == before and not Note.objects.claimed().exists()

        wait_until(is_at_rest, seconds=20)
        left = Note.objects.ready().count()
        assert left > 0
        Queue.objects.resume_everything()
        wait_until(lambda: Note.objects.ready().count() < left)
