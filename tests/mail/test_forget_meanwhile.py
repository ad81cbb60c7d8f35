"""forget_address beside workers: what they hold is left to them, and said."""

import json

import pytest
from django.core.management import CommandError

from django_dbqueue.lifecycle import operator
from django_dbqueue.mail import rows
from django_dbqueue.mail.models import Email, Mailer, Suppression
from django_dbqueue.mail.models.suppression import Reason
from django_dbqueue.mail.privacy import forget
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite, start, table
from tests.kit.mail import all_rows, in_archive, in_state, letter, queue_all, queued

pytestmark = [pytest.mark.usefixtures("db_rows"), pytest.mark.each_database]

ANNA = "anna@x.example"


def test_claimed_mail_is_left_and_said_and_the_next_run_takes_it(forget_address, capsys):
    queued(ANNA)
    queued(ANNA, "berta@x.example")
    claimed = Email.objects.claim(limit=2)
    with pytest.raises(CommandError, match=r"2 left as they are.*Run it again") as caught:
        forget_address(ANNA)
    assert caught.value.returncode == 1
    assert "email: 0 deleted, 0 changed, 0 erased, 2 left" in capsys.readouterr().out
    assert all(job.message == fresh(job).message for job in claimed)
    for job in claimed:
        job.complete()
    assert "email: 1 deleted, 1 changed, 1 erased, 0 left" in forget_address(ANNA)


def test_mail_that_a_worker_claims_meanwhile_is_left(forget_address, monkeypatch):
    row = queued(ANNA)
    delete = operator.delete

    def claim_first(*args):
        start(Email.objects.claim).result()
        return delete(*args)

    monkeypatch.setattr(operator, "delete", claim_first)
    with pytest.raises(CommandError, match="1 left"):
        forget_address(ANNA)
    assert fresh(row).status == Status.CLAIMED


def test_what_a_worker_notes_meanwhile_is_not_overwritten(forget_address, monkeypatch):
    """A worker waits while a row is looked at, or comes before; it never writes in between."""
    row = queued(ANNA, "berta@x.example")
    overwrite(row, deliveries={ANNA: {"outcome": "deferred"}})
    changes, workers = forget.changes, []

    def work():
        [job] = Email.objects.claim()
        job.deliveries = {"berta@x.example": {"outcome": "delivered"}}
        job.release()

    def claim_meanwhile(*args):
        workers.append(start(work))
        workers[-1].join(0.5)
        return changes(*args)

    monkeypatch.setattr(forget, "changes", claim_meanwhile)
    try:
        forget_address(ANNA)
    except CommandError:
        pass
    for worker in workers:
        try:
            worker.result()
        except ValueError:  # the row was locked: it claimed nothing, and comes again
            work()
    assert fresh(row).deliveries == {"berta@x.example": {"outcome": "delivered"}}


def test_unsent_mail_that_this_release_cannot_read_is_left_and_ended_mail_erased(forget_address):
    text = json.dumps({"version": 1, "to": [ANNA]})
    unsent, ended = queued(ANNA, "b@x.example"), in_state(Status.DONE, ANNA, "b@x.example")
    for row in (unsent, ended):
        overwrite(row, message=text)
    with pytest.raises(CommandError, match="1 left"):
        forget_address(ANNA)
    assert fresh(unsent).message == text
    assert fresh(ended).is_erased


def test_a_dry_run_counts_and_changes_nothing(forget_address, capsys):
    queued(ANNA)
    queued(ANNA, "berta@x.example")
    in_archive(ANNA)
    in_archive(ANNA, "berta@x.example")
    for to in ([ANNA], [ANNA, "berta@x.example"]):
        queued(*to, wishes={"queue": "claimed"})
    Email.objects.claim(limit=2, queue="claimed")
    Suppression.objects.suppress(ANNA, Reason.BOUNCE)
    Mailer.objects.pause("smtp", 60, ANNA)
    before = all_rows()
    outs = []
    for options in (["--dry-run"], []):
        assert all_rows() == before
        with pytest.raises(CommandError, match="2 left"):
            forget_address(ANNA, *options)
        outs.append(capsys.readouterr().out)
    assert outs[0].splitlines()[1:] == outs[1].splitlines()
    assert "\nemail: 1 deleted, 1 changed, 0 erased, 2 left" in outs[0]
    assert "archived email: 1 deleted, 1 changed, 1 erased, 0 left" in outs[0]


def test_a_whole_table_is_gone_through_some_keys_at_a_time(forget_address, monkeypatch):
    monkeypatch.setattr(rows, "WINDOW_ROWS", 7)
    monkeypatch.setattr(forget, "CHUNK", 2)
    people = [ANNA if n % 3 else "berta@x.example" for n in range(30)]
    queue_all([letter(one) for one in people])
    assert "email: 20 deleted" in forget_address(ANNA)
    assert Email.objects.count() == 10


def test_a_job_that_somebody_holds_cannot_be_amended_or_deleted():
    queued(ANNA)
    [job] = Email.objects.claim()
    seen = [(job.pk, Status.CLAIMED, job.claim_owner)]
    emails = table(Email)
    assert operator.delete(emails, seen).skipped == 1
    assert operator.amend(emails, seen, {"subject": "x"}).skipped == 1
    assert operator.amend(emails, [(job.pk, Status.READY, None)], {"subject": "x"}).skipped == 1
    with pytest.raises(ValueError, match="status"):
        operator.amend(emails, seen, {"status": 2})
    assert fresh(job).subject == "Hello"
