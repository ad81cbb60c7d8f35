"""What workers and reapers do with jobs, seen in the test's own process."""

import json

import pytest
from django.core.management import CommandError, call_command

from django_dbqueue.models import Worker
from django_dbqueue.states import Status
from django_dbqueue.testing import InlineWorker
from tests.kit.clock import only_virtual_clock
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh
from tests.kit.processes import lines
from tests.queueapp.models import Batch, Fleeting, Note

pytestmark = pytest.mark.usefixtures("db_rows")


def test_retry_and_bury_say_what_becomes_of_the_job():
    retried, buried = Note.objects.create(action="retry"), Note.objects.create(action="bury")
    work_off("queueapp.note")
    assert fresh(retried).status == Status.DELAYED
    assert fresh(buried).status == Status.BURIED
    assert fresh(buried).last_error == "nobody can do this"


def test_tries_and_backoff_of_the_command_line_win_over_the_policy():
    job, other = Note.objects.create(action="fail"), Note.objects.create(action="fail")
    work_off("queueapp.note", "--tries", "1")
    assert fresh(job).status == fresh(other).status == Status.BURIED
    late = Note.objects.create(action="fail")
    work_off("queueapp.note", "--backoff", "3600")
    assert fresh(late).status == Status.DELAYED
    assert (fresh(late).retry_at - fresh(late).created_at).total_seconds() > 3500


def test_a_save_inside_run_keeps_what_the_lifecycle_wrote():
    job = Note.objects.create(text="written", action="save")
    work_off("queueapp.note")
    assert fresh(job).text == "written and saved"
    assert (fresh(job).status, fresh(job).attempts) == (Status.DONE, 1)


def test_a_job_that_finished_itself_is_left_alone():
    job = Note.objects.create(action="complete")
    log = work_off("queueapp.note")
    assert fresh(job).status == Status.DONE
    assert "ClaimLost" not in log


def test_run_batch_gets_many_jobs_at_once(log):
    Batch.objects.bulk_create([Batch(text=f"{n}", log=log) for n in range(20)])
    work_off("queueapp.batch", "--batch-size", "20")
    assert Batch.objects.done().count() == 20
    assert lines(log) == ["20 jobs"]


def test_an_expired_job_is_finished_without_a_run(log):
    job = Note.objects.create(log=log, expires_at=fresh(Note.objects.create()).created_at)
    work_off("queueapp.note")
    assert (fresh(job).state, lines(log)) == ("expired", [])


def test_only_the_named_table_and_queue_are_served():
    mine = Note.objects.create(queue="red")
    others = [Note.objects.create(queue="blue"), Fleeting.objects.create()]
    work_off("queueapp.Note:red")
    assert fresh(mine).status == Status.DONE
    assert {fresh(job).status for job in others} == {Status.READY}


@pytest.mark.parametrize("args", [["--stop-when-empty"], ["--once"]])
def test_queues_are_left_to_other_workers(args):
    mine, others = (
        Note.objects.create(queue="mine"),
        Note.objects.create(queue="urgent", priority=0),
    )
    left_out = ["--except", "queueapp.Note:urgent", "--except", "queueapp.note:z"]
    work_off("queueapp.note", *left_out, *args)
    assert (fresh(mine).status, fresh(others).status) == (Status.DONE, Status.READY)


def test_a_queue_that_is_to_be_left_to_others_must_be_named():
    with pytest.raises(CommandError, match="names no queue"):
        call_command("runworker", "--once", "--except", "queueapp.Note")


def test_a_paused_queue_is_left_alone_until_it_is_resumed():
    Note.objects.pause("red")
    paused, other = Note.objects.create(queue="red"), Note.objects.create(queue="blue")
    with InlineWorker("queueapp.note") as inline:
        assert inline.run() == 1
        assert (fresh(other).status, fresh(paused).status) == (Status.DONE, Status.READY)
        Note.objects.resume("red")
        assert inline.run() == 1
    assert fresh(paused).status == Status.DONE


def test_a_delayed_job_is_promoted_by_the_worker():
    with only_virtual_clock() as clock, InlineWorker("queueapp.note") as inline:
        job = Note.objects.enqueue(delay=1.5).job
        clock.move(1.499)
        assert inline.run() == 0
        clock.move(0.001)
        assert inline.run() == 1
    assert fresh(job).status == Status.DONE
    assert fresh(job).finished_at == clock.now


def test_in_debug_an_empty_queue_says_how_to_enqueue(settings, capsys):
    settings.DEBUG = True
    call_command("runworker", "--once")
    assert ".objects.create(" in capsys.readouterr().err


def test_a_reaper_makes_one_pass_with_once(capsys):
    with only_virtual_clock() as clock:
        job = Note.objects.enqueue(delay=60).job
        clock.move(60)
        call_command("runreaper", "--once")
    assert "1 promoted" in capsys.readouterr().out
    assert fresh(job).status == Status.READY


def test_status_counts_every_state_and_the_living_workers(capsys):
    Note.objects.bulk_create([Note() for _ in range(3)])
    Note.objects.create(queue="red")
    Note.objects.claim()[0].bury("no")
    Note.objects.claim()[0].complete()
    Note.objects.pause("red")
    Worker.objects.create(uuid="a" * 32, host="here", pid=1, serves=["queueapp.note"])
    call_command("dbqueue", "status", "--json")
    report = json.loads(capsys.readouterr().out)
    [default, red] = [q for q in report["queues"] if q["table"] == "queueapp.note"]
    assert default["counts"] == {"ready": 1, "claimed": 0, "delayed": 0, "buried": 1}
    assert red["oldest_seconds"] >= 0
    assert (report["workers"], report["paused"]) == (1, [["queueapp.note", "red"]])
    call_command("dbqueue", "status")
    assert "workers alive: 1" in capsys.readouterr().out
