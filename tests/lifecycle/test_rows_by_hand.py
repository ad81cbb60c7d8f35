"""Rows edited by hand into nonsense stop neither a worker, nor the reaper, nor a page."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.urls import resolve

from django_dbqueue.lifecycle import reap
from django_dbqueue.lifecycle.claim import claim
from django_dbqueue.lifecycle.ready_queues import ready_queues
from django_dbqueue.mail.models import Email
from django_dbqueue.models import Worker
from django_dbqueue.monitor.overview import overview
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.broken_rows import CLAIMED, LEFT, edit, nonsense
from tests.kit.clock import only_virtual_clock
from tests.kit.command_line import status
from tests.kit.inline_worker import logged, work_off
from tests.kit.jobs import claim_one, fresh, overwrite, reaper, table
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")


def broken(name, model=Note, **columns):
    job = model.objects.create(**columns)
    edit(job, nonsense()[name])
    return job


def states():
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT text, status FROM {table().name} WHERE text <> ''")
        return dict(cursor.fetchall())


def test_a_worker_goes_on_beside_all_of_them():
    with only_virtual_clock() as clock, logged() as said, InlineWorker("queueapp.note") as inline:
        for name in nonsense():
            broken(name, text=name)
        Note.objects.bulk_create([Note() for _ in range(100)])
        Note.objects.enqueue(delay=0.5)
        for _ in range(10):
            inline.run()
            clock.move(0.5)
    expected = {name: LEFT.get(name, Status.DONE) for name in nonsense()}
    assert states() == expected
    assert not QuerySet(Note).filter(text="").exclude(status=Status.DONE).exists()
    for trouble in ("went wrong", "claiming:", "the reaper leaves", "recording"):
        assert trouble not in said
    for name in (n for n, its in expected.items() if its == Status.BURIED and "words" in n):
        job = QuerySet(Note).defer("errors").get(text=name)
        assert "is not a number" in job.last_error


@pytest.mark.parametrize("name", nonsense())
def test_every_statement_takes_it(name):
    broken(name)
    good = Note.objects.enqueue(retry_at="2020-01-01T00:00:00Z")[0]
    turns = reaper()
    for _ in range(2):
        turns.turn(judge=lambda: True)
    assert not turns.has_suspicion()
    jobs = [job for queue in ready_queues(table()) for job in claim(table(), queue, 9, "w.1")]
    assert good.pk in [job.pk for job in jobs]
    for job in jobs:
        job.touch()
        job.release()
        [again] = claim(table(), job.queue, 1, "w.2")
        again.fail("no")
    assert reap.reap_owner(table(), "w.") == []


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_status_tells_of_all_of_them(options):
    for name in nonsense():
        broken(name)
    assert "queueapp.note" in status(*options)


@pytest.fixture
def staff(client):
    user = User.objects.create_superuser("staff")
    client.force_login(user)
    yield client
    user.delete()


@pytest.mark.parametrize("name", nonsense())
def test_the_admin_shows_it(staff, name):
    job = broken(name, text="a note")
    assert staff.get(f"/admin/queueapp/note/{job.pk}/change/").status_code == 200
    assert staff.get("/admin/queueapp/note/").content.count(b"queueapp/note/%d/" % job.pk) == 1


@pytest.mark.parametrize(
    "query", ["", *(f"?state={status}" for status in Status), "?queue=default"]
)
def test_the_admin_lists_all_of_them(staff, query):
    jobs = [broken(name) for name in nonsense()]
    page = staff.get(f"/admin/queueapp/note/{query}")
    shown = [b"queueapp/note/%d/" % job.pk in page.content for job in jobs]
    assert any(shown)


def test_a_page_is_the_middlewares_to_change_where_columns_have_types(monkeypatch, staff, rf):
    monkeypatch.setattr(type(table().dialect), "has_typed_columns", True)
    request = rf.get("/admin/queueapp/note/")
    request.user = User.objects.get()
    assert not resolve(request.path).func(request).is_rendered


EXTREMES = (
    *("delayed until 9999", "expires in 9999"),
    *("delayed since the year 1", "expires in the year 1"),
)


@pytest.mark.one_database
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_the_admin_shows_the_first_and_the_last_day_in_zones_that_lack_it(staff, settings, zone):
    settings.TIME_ZONE = zone
    for name in EXTREMES:
        job, email = broken(name), broken(name, Email)
        for page in ("", f"{job.pk}/change/", "?state=3"):
            assert staff.get(f"/admin/queueapp/note/{page}").status_code == 200, (name, page)
        assert staff.get("/admin/dbqueue_mail/email/").status_code == 200, name
        assert staff.get(f"/admin/dbqueue/queue/search/?q={email.pk}").status_code == 200, name
        told = {column: getattr(fresh(job), column) for column in ("retry_at", "expires_at")}
        overwrite(job, **told)
        assert QuerySet(Note).get(**told) == job


MAIL = [name for name in nonsense() if any(word in name for word in ("errors", "status", "dots"))]


@pytest.mark.parametrize("name", MAIL)
def test_the_admin_shows_it_among_mail(staff, name):
    job = broken(name, Email)
    for page in ("", f"{job.pk}/change/"):
        assert staff.get(f"/admin/dbqueue_mail/email/{page}").status_code == 200, page


def test_what_stands_in_errors_is_shown_as_it_is():
    shown = {name: broken(name) for name in nonsense() if "errors" in name}
    lines = {name: fresh(job).last_error for name, job in shown.items()}
    assert lines["errors are text"] == "it was late"
    assert lines["errors are a number"] == "17"
    assert lines["errors are null"] == ""
    assert "'E'" in lines["errors are an object"]
    assert "{'message': 5}" in lines["errors are a list of nonsense"]


def test_a_queue_without_a_name_is_shown():
    broken("no queue")
    assert "" in [lane.queue for lane in overview().queues]


def test_an_unknown_state_is_called_so():
    assert fresh(broken("an unknown status")).state == "unknown state 77"


def test_a_person_can_take_a_claim_from_nobody():
    for name in ("claimed by nobody, for ever", "claimed by an empty owner"):
        job = broken(name)
        assert str(Note.objects.filter(pk=job.pk).release()) == "1 changed", name
        assert fresh(job).status == Status.READY


def test_a_claim_by_nobody_ends_with_its_time():
    job = broken("claimed by nobody")
    reaper().turn(judge=lambda: True)
    row = fresh(job)
    assert (row.status, row.errors[0]["owner"]) == (Status.DELAYED, None)


def test_no_time_to_run_and_too_much_of_it_are_the_policys():
    for name in ("no time to run", "huge time to run"):
        job = broken(name)
        begun = claim_one()
        assert begun.time_to_run is None
        row = fresh(job)
        assert 50 < (row.retry_at - row.dequeued_time).total_seconds() < 70
        begun.touch()
        row = fresh(job)
        assert 50 < (row.retry_at - row.dequeued_time).total_seconds() < 70
        begun.complete()


def test_a_dead_workers_losses_are_counted_whatever_the_column_says():
    dead = Worker.objects.create(pid=1, uuid="d" * 32, host="gone")
    overwrite_beat(dead)
    job, neighbour = Note.objects.create(), Note.objects.create()
    edit(job, f"{CLAIMED}, losses = 32767, owner = '{dead.uuid}.1', {FUTURE}")
    edit(neighbour, f"{CLAIMED}, owner = '{dead.uuid}.1', {FUTURE}")
    reaper().turn(judge=lambda: True)
    assert (fresh(job).status, fresh(job).losses) == (Status.READY, 32767)
    assert fresh(neighbour).status == Status.READY


FUTURE = "retry_at = '2999-01-01 00:00:00'"


def overwrite_beat(worker):
    QuerySet(Worker).filter(pk=worker.pk).update(beat_at="2020-01-01T00:00:00Z")


def test_a_queue_whose_name_cannot_be_read_is_served_like_any_other():
    if connection.vendor != "sqlite":
        return  # the others keep no such text
    jobs = [Note.objects.create() for _ in range(3)]
    for job, name in zip(jobs, ("ff", "6100ff", "fe"), strict=True):
        edit(job, f"queue = CAST(x'{name}' AS TEXT)")
    jobs.append(Note.objects.create(queue="\U0001f600"))
    said = work_off("queueapp.note")
    assert QuerySet(Note).filter(status=Status.DONE).count() == len(jobs)
    assert "left out" not in said


def test_an_owner_that_is_no_text_is_judged_like_any_other():
    if connection.vendor != "sqlite":
        return
    jobs = [Note.objects.create() for _ in range(2)]
    for job in jobs:
        edit(job, f"{CLAIMED}, owner = CAST(x'ff' AS TEXT), retry_at = '2020-01-01'")
    assert str(Note.objects.filter(pk=jobs[0].pk).release()) == "1 changed"
    reaper().turn(judge=lambda: True)
    assert fresh(jobs[1]).errors[0]["owner"] == "\\xff"
