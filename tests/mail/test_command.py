"""send_queued_mail: what is due goes out and the command ends; --dry-run only tells."""

import signal
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_dbqueue.mail import rows
from django_dbqueue.mail.management.commands.send_queued_mail import Command
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.mail.sending import dry_run
from django_dbqueue.models import Queue, Worker
from django_dbqueue.states import Status
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import parse_served
from tests.kit.inline_worker import work_off
from tests.kit.jobs import fresh, overwrite
from tests.kit.mail import MAILER, all_rows, email_of, enqueue, letter, queue_all, queued, setting
from tests.kit.processes import running
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows")

MAIL = "dbqueue_mail.email"
NAME = MAILER or "default"


def in_minutes(minutes):
    return timezone.now() + timedelta(minutes=minutes)


def send(database_url, *args, **environment):
    with running(database_url, "send_queued_mail", *args, **environment) as process:
        assert process.end(60) == 0, process.stderr


# --- sending ------------------------------------------------------------------------------------


def test_what_is_due_is_sent_and_the_command_ends(database_url, server):
    queue_all([letter(f"ready{n}") for n in range(20)])
    queued("urgent", wishes={"priority": "urgent"})
    enqueue(letter("due"), scheduled_time=in_minutes(-5))
    later = enqueue(letter("later"), scheduled_time=in_minutes(30))
    note = Note.objects.create()
    send(database_url, **server.environment)
    assert len(server.received) == 22
    assert Email.objects.done().count() == 22
    assert fresh(later).status == Status.DELAYED
    assert fresh(note).status == Status.READY


def test_mail_whose_time_has_come_is_sent_however_much_there_is(server):
    Email.objects.bulk_create(
        [email_of(letter(f"due{n}"), scheduled_time=in_minutes(-5)) for n in range(501)]
    )
    options = Options(served=parse_served([MAIL]), stop_when_empty=0.0)
    Command().prepare(options, {"skip_checks": True, "verbosity": 0, "once": None})
    assert Email.objects.ready().count() == 501  # before the worker looks
    work_off(MAIL)
    assert len(server.received) == 501


def test_commands_that_overlap_send_each_mail_once(database_url, server):
    queue_all([letter(f"a{n}") for n in range(100)])
    with (
        running(database_url, "send_queued_mail", **server.environment) as one,
        running(database_url, "send_queued_mail", **server.environment) as two,
    ):
        assert (one.end(60), two.end(60)) == (0, 0)
    assert len(server.received) == len({one.recipients[0] for one in server.received}) == 100


def test_what_a_killed_command_had_is_sent_by_the_next(database_url, server):
    names = ["stall", "anna", "berta"]
    queue_all([letter(name) for name in names])
    quick = {"DBQUEUE_BEAT_INTERVAL": "0.2", "DBQUEUE_WORKER_TIMEOUT": "1"}
    environment = {**server.environment, **quick, "DBQUEUE_MAIL_TIMEOUT": "60"}
    with running(database_url, "send_queued_mail", **environment) as process:
        wait_until(lambda: server.unanswered)
        process.send_group(signal.SIGKILL)
        process.end()
    wait_until(lambda: Worker.objects.silent(1).exists())
    server.stalls = False
    send(database_url, **environment)
    assert [server.got(name) for name in names] == [1, 1, 1]
    assert Email.objects.done().count() == len(names)


def test_what_the_worker_would_refuse_to_start_with_it_refuses_too(monkeypatch):
    queued()
    monkeypatch.setenv("DBQUEUE_THREADS", "0")
    with pytest.raises(CommandError, match="DBQUEUE_THREADS must be at least 1"):
        call_command("send_queued_mail")
    assert Email.objects.ready().count() == 1


# --- the dry run --------------------------------------------------------------------------------


@pytest.fixture
def tell(capsys):
    """What a dry run says, by the mail's key, without it; and its summary."""

    def call():
        before = all_rows(Queue, Worker)
        call_command("send_queued_mail", "--dry-run")
        assert all_rows(Queue, Worker) == before
        *lines, summary = capsys.readouterr().out.splitlines()
        told = dict(line.split(" ", 1) for line in lines)
        return {int(key): words for key, words in told.items()}, summary

    return call


def test_a_dry_run_tells_who_would_get_what_is_due_and_changes_nothing(tell):
    ready = queued("anna", "Berta <berta@x.example>")
    due = enqueue(letter("carl"), scheduled_time=in_minutes(-1))
    enqueue(letter("dora"), scheduled_time=in_minutes(9))
    ended = [queued() for _ in range(3)]
    for one, status in zip(ended, (Status.CLAIMED, Status.DONE, Status.BURIED), strict=True):
        overwrite(one, status=status)
    told, summary = tell()
    assert told == {
        ready.pk: f"by {NAME}: to anna@x.example, Berta <berta@x.example>",
        due.pk: f"by {NAME}: to carl@x.example",
    }
    assert summary == "due: 2, would be sent: 2"


def test_a_dry_run_tells_who_would_not_get_it_and_why(tell, settings):
    setting(settings, MAIL_ALLOWED_DOMAINS=["x.example"])
    Suppression.objects.suppress("anna@x.example", Reason.COMPLAINT)
    part, nobody = queued("anna", "berta", "carl@y.example"), queued("carl@y.example")
    told, summary = tell()
    assert told[part.pk] == (
        f"by {NAME}: to berta@x.example; "
        "not to carl@y.example (not allowed: not in MAIL_ALLOWED_DOMAINS (x.example)); "
        "not to anna@x.example (suppressed: complaint)"
    )
    assert told[nobody.pk].startswith(f"by {NAME}: to nobody; not to carl@y.example")
    assert summary == "due: 2, would be sent: 1"


def test_a_dry_run_tells_who_gets_it_instead(tell, settings):
    setting(settings, MAIL_OVERRIDE_RECIPIENTS=["dev@x.example"])
    one = queued("anna")
    assert tell()[0][one.pk] == f"by {NAME}: to dev@x.example instead of anna@x.example"


def test_a_dry_run_leaves_out_who_has_got_it(tell):
    one = queued("anna", "berta", "carl")
    known = {
        "anna@x.example": {"outcome": "delivered"},
        "berta@x.example": {"outcome": "refused"},
    }
    overwrite(one, deliveries=known, attempts=1)
    assert tell()[0][one.pk] == f"by {NAME}: to carl@x.example"
    overwrite(one, attempts=0)  # somebody has asked for another try: those who were refused, too
    assert tell()[0][one.pk] == f"by {NAME}: to berta@x.example, carl@x.example"


def test_a_dry_run_tells_what_keeps_a_mail_back(tell, settings):
    setting(settings, MAIL_IN_DOUBT="hold")
    rests, paused, expired, crashed, broken = [enqueue(letter(), queue=f"q{n}") for n in range(5)]
    overwrite(rests, using="slow")
    overwrite(expired, expires_at=in_minutes(-1))
    overwrite(crashed, crashes=1)
    overwrite(broken, message="{}")
    Mailer.objects.pause("slow", 600, "421 too fast")
    Email.objects.pause("q1")
    told, summary = tell()
    assert "its mailer rests for 6" in told[rests.pk] or "for 5" in told[rests.pk]
    assert told[rests.pk].endswith("421 too fast")
    assert told[paused.pk].endswith("its queue q1 is paused")
    assert told[expired.pk].endswith("has expired: not sent at all")
    assert told[crashed.pk].endswith("in doubt: kept for a person")
    assert "would fail: it cannot be read" in told[broken.pk]
    assert summary == "due: 5, would be sent: 0"


def test_a_dry_run_reads_a_whole_table_some_keys_at_a_time(tell, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW_ROWS", 7)
    monkeypatch.setattr(dry_run, "PAGE_ROWS", 2)
    queue_all([letter() for _ in range(40)])
    for one in Email.objects.filter(pk__gt=Email.objects.first().pk)[:20]:
        overwrite(one, status=Status.DONE)
    told, _ = tell()
    assert list(told) == sorted(told)
    assert len(told) == 20
