"""Each of Laravel's queue:* commands does here what docs/from-laravel.md says."""

import re
import shlex
from pathlib import Path

import pytest
from django.core.management import get_commands

from django_dbqueue.fields import DbNow
from django_dbqueue.management.commands import dbqueue as module
from django_dbqueue.management.commands.runworker import Command as RunWorker
from django_dbqueue.models import Queue, Worker
from django_dbqueue.states import Status
from tests.kit.command_line import as_json, dbqueue, fails
from tests.kit.jobs import buried, claimed, fresh, overwrite
from tests.kit.overview import a_worker
from tests.queueapp.models import ArchivedKept, Kept, Note

pytestmark = [pytest.mark.usefixtures("db_rows")]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-laravel.md"
SECTION = PAGE.read_text().partition("## Commands\n")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (`queue:.*?) \| (.*?) \|(.*)\|$", SECTION, re.MULTILINE)
LARAVELS = {
    *("work", "listen", "retry", "retry-batch", "failed", "forget", "flush", "prune-failed"),
    *("prune-batches", "restart", "pause", "resume", "continue", "monitor", "clear", "table"),
    *("failed-table", "batches-table"),
}


@pytest.mark.any_database
def test_each_of_laravels_commands_has_a_line():
    assert len(ROWS) > 15
    assert {name for there, _, _ in ROWS for name in re.findall(r"queue:([\w-]+)", there)} == (
        LARAVELS
    )


@pytest.mark.any_database
@pytest.mark.parametrize("here", [here for _, here, _ in ROWS])
def test_what_a_line_names_is_understood_here(here):
    if here == "none":
        return
    [line] = re.findall(r"^`(.*)`$", here)
    name, *words = shlex.split(line.replace("shop.Thumbnail", "queueapp.Note"))
    commands = {"dbqueue": module.Command, "runworker": RunWorker}
    assert name in get_commands()
    if name in commands:
        assert commands[name]().create_parser("manage.py", name).parse_args(words)


def failed_notes(*queues):
    return [buried(queue=queue) for queue in queues]


def states(jobs):
    return [fresh(job).state for job in jobs]


def test_retry_by_ids_keeps_the_row():
    jobs = failed_notes(*["a"] * 3)
    dbqueue("retry", "queueapp.Note", "--id", jobs[0].pk, jobs[2].pk)
    assert states(jobs) == ["ready", "buried", "ready"]


def test_retry_all():
    jobs = [*failed_notes("a", "b"), buried(Kept)]
    dbqueue("retry", "--all")
    assert states(jobs) == ["ready"] * 3


def test_retry_a_queue():
    jobs = failed_notes("mails", "b")
    dbqueue("retry", "--queue", "mails")
    assert states(jobs) == ["ready", "buried"]


def test_retry_a_range():
    jobs = failed_notes(*["a"] * 4)
    dbqueue("retry", "queueapp.Note", "--id", f"{jobs[1].pk}-{jobs[2].pk}")
    assert states(jobs) == ["buried", "ready", "ready", "buried"]


def test_failed_lists_them_as_json():
    job = failed_notes("a")[0]
    assert [one["id"] for one in as_json("failed")["failed"]] == [job.pk]


def test_forget_is_cancel_and_says_where_there_is_none():
    job = buried(Kept, text="kept")
    dbqueue("cancel", "queueapp.Kept", "--id", job.pk, "--yes")
    assert not Kept.objects.exists()
    assert ArchivedKept.objects.get().text == "kept"
    assert "0 of 1" in fails(1, "cancel", "queueapp.Kept", "--id", job.pk, "--yes")[1]


@pytest.mark.parametrize(("age", "left"), [("0", 0), ("48h", 1), ("24h", 1)])
def test_flush_and_prune_failed_delete_what_failed(age, left):
    old, _ = failed_notes("a", "a")
    overwrite(old, finished_at=DbNow(-49 * 3600), failed_at=DbNow(-49 * 3600))
    Note.objects.create()
    dbqueue("prune", "--failed", age, "--yes")
    assert Note.objects.filter(status=Status.BURIED).count() == left
    assert Note.objects.ready().count() == 1


def test_restart_asks_all_workers():
    for host in ("web1", "web2"):
        a_worker(host=host)
    dbqueue("restart")
    assert Worker.objects.filter(restart_requested=True).count() == 2


def test_pause_and_resume_a_queue_and_all():
    Note.objects.create(queue="mails")
    for words in (["queueapp.Note:mails"], ["--all"]):
        dbqueue("pause", *words)
        assert Note.objects.claim(queue="mails") == []
        dbqueue("resume", *words)
    assert len(Note.objects.claim(queue="mails")) == 1
    assert not Queue.objects.filter(paused_until__gt=DbNow()).exists()


def test_monitor_ends_with_1_on_an_alert():
    Note.objects.enqueue_many([{} for _ in range(3)], queue="mails")
    Note.objects.enqueue(queue="mails", delay=3600)
    dbqueue("monitor", "queueapp.Note:mails", "--max", 4)
    assert "mails" in fails(1, "monitor", "queueapp.Note:mails", "--max", 3)[1]


def test_clear_leaves_what_workers_have_unless_it_is_told_otherwise():
    running = claimed(queue="mails")
    Note.objects.create(queue="mails")
    Note.objects.create(queue="other")
    dbqueue("clear", "--queue", "mails", "--yes")
    assert sorted(Note.objects.values_list("queue", "status")) == [
        ("mails", Status.CLAIMED),
        ("other", Status.READY),
    ]
    dbqueue("clear", "--queue", "mails", "--include-claimed", "--yes")
    assert not Note.objects.filter(pk=running.pk).exists()
