"""Mail that may have gone out when its run was cut off waits for a person, where the project holds
what is in doubt: whatever has cut it off."""

import signal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_dbqueue.fields import DbNow
from django_dbqueue.mail.conf import TIME_TO_RUN
from django_dbqueue.mail.in_doubt import mark_as_sent
from django_dbqueue.mail.models import Email, Mailer
from django_dbqueue.mail.sending.dry_run import DryRun
from django_dbqueue.states import Status
from django_dbqueue.worker.options import Options
from django_dbqueue.worker.served import all_served
from tests.kit.jobs import claim_one, fresh, overwrite, reap_overdue, reap_owner, steal, table
from tests.kit.mail import (
    MEMORY,
    deliver_to,
    letter,
    outcomes,
    queue_all,
    queued,
    retried,
    run_mail,
    sent,
    setting,
)
from tests.kit.processes import give_back, worker
from tests.kit.waiting import wait_until
from tests.queueapp.models import Note

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")

IN_DOUBT = {"stall": ("in doubt", None)}


@pytest.fixture(autouse=True)
def hold(impatient, settings):
    setting(settings, MAIL_IN_DOUBT="hold")


def given_back(job):
    """As those of a child that was stopped: with nothing to its charge."""
    assert reap_owner(table(Email), job.claim_owner, started=()) == 1


def over_its_time(job):
    overwrite(job, retry_at=DbNow(-60))
    assert reap_overdue(table(Email)) == 1


def released(job):
    assert Email.objects.filter(pk=job.pk).release().changed == 1


WAYS = [given_back, over_its_time, released]


def cut_off(email, how):
    """While the server had all of it and had not answered: nobody writes how the run ended."""
    job = claim_one(Email)
    with pytest.raises(Exception, match="in doubt"):
        job.run()
    how(job)
    return fresh(email)


@pytest.mark.parametrize("how", WAYS)
def test_it_is_held_and_nobody_sends_it_again(server, how):
    email = cut_off(queued("stall"), how)
    assert email.status in {Status.READY, Status.DELAYED}
    email = retried_or_run(email)
    assert (email.status, email.mail_state) == (Status.BURIED, "in doubt")
    assert email.last_error.startswith("in doubt: its worker died or was stopped")
    assert outcomes(email) == IN_DOUBT
    assert len(server.unanswered) == 1


def retried_or_run(email):
    if email.status == Status.DELAYED:
        return retried(email)
    run_mail()
    return fresh(email)


@pytest.mark.parametrize("how", WAYS)
def test_a_person_has_it_sent_or_knows_that_it_arrived(server, how):
    first, second = (retried_or_run(cut_off(queued("stall"), how)) for _ in range(2))
    server.stalls = False
    assert mark_as_sent(first)
    Email.objects.filter(pk=second.pk).kick()
    run_mail()
    assert [fresh(one).mail_state for one in (first, second)] == ["sent", "sent"]
    assert len(server.received) == 1


@pytest.mark.parametrize("state", ["retry at", "failed at the last attempt"])
def test_who_retries_it_before_it_is_held_has_decided(server, settings, state):
    email = queued("stall")
    if state != "retry at":
        overwrite(email, attempts=Email.policy().max_attempts - 1)
    email = cut_off(email, over_its_time)
    assert email.status == (Status.DELAYED if state == "retry at" else Status.BURIED)
    server.stalls = False
    assert Email.objects.filter(pk=email.pk).kick().changed == 1
    run_mail()
    assert fresh(email).mail_state == "sent"


@pytest.mark.parametrize("how", [given_back, released])
def test_a_retry_that_skips_it_has_decided_nothing(server, how):
    email = cut_off(queued("stall"), how)
    server.stalls = False
    changed = Email.objects.filter(pk=email.pk).kick()
    assert (changed.changed, changed.skipped) == (0, 1)
    run_mail()
    assert (fresh(email).mail_state, server.received) == ("in doubt", [])


def test_who_was_refused_or_is_put_off_at_that_attempt_is_not_in_doubt(server):
    email = cut_off(queued("stall", "refuse", "defer"), given_back)
    run_mail()
    found = {**IN_DOUBT, "refuse": ("refused", 550), "defer": ("deferred", 450)}
    assert outcomes(fresh(email)) == found


def test_what_was_cut_off_before_the_message_itself_is_sent_again(server):
    email = queued("defer")
    job = claim_one(Email)
    with pytest.raises(Exception, match="450"):
        job.run()
    given_back(job)
    server.to_recipients.clear()
    run_mail()
    assert (fresh(email).mail_state, server.got("defer")) == ("sent", 1)


def test_a_mailer_without_smtp_is_held_as_well(settings, mailoutbox):
    deliver_to(settings, 0, MEMORY, MAIL_IN_DOUBT="hold")
    email = queued("anna")
    job = claim_one(Email)
    job.run()
    given_back(job)
    run_mail()
    assert (fresh(email).mail_state, len(mailoutbox)) == ("in doubt", 1)


def test_what_another_owner_has_by_now_is_not_sent(server):
    queued("anna")
    job = claim_one(Email)
    steal(job)
    with pytest.raises(Exception, match="another owner has it by now"):
        job.run()
    assert server.received == []


class MailElsewhere:
    def db_for_write(self, model, **_hints):
        return "elsewhere" if model is Email else None


def test_what_is_left_where_mail_went_before_is_sent_from_there(server, settings):
    email = queued("anna")
    job = claim_one(Email)
    settings.DATABASE_ROUTERS = [MailElsewhere()]
    job.run()
    job.complete()
    settings.DATABASE_ROUTERS = []
    assert (fresh(email).mail_state, server.got("anna")) == ("sent", 1)


def test_what_was_answered_bears_no_mark(server):
    assert "under_way" not in str(sent("anna", "refuse").deliveries)
    assert "under_way" not in str(sent("stall").deliveries)


def test_only_where_it_is_held_does_a_mail_cost_one_more_statement(server, settings):
    Mailer.objects.create(name="default")  # else the first look makes it, in a transaction
    counts = {}
    for word in ("retry", "hold", "retry", "hold"):
        setting(settings, MAIL_IN_DOUBT=word)
        queued("anna")
        job = claim_one(Email)
        with CaptureQueriesContext(connection) as statements:
            job.run()
        job.complete()
        # Once a second, whichever mail it is, a pause is looked for.
        counts[word] = sum(Mailer._meta.db_table not in one["sql"] for one in statements)
    assert counts["hold"] == counts["retry"] + 1


def test_where_it_is_not_held_it_is_sent_again(server, settings):
    setting(settings, MAIL_IN_DOUBT="retry")
    queued("stall")
    job = claim_one(Email)
    with pytest.raises(Exception, match="timed out"):
        job.run()
    given_back(job)
    run_mail()
    assert len(server.unanswered) == 2


def test_a_dry_run_says_that_it_is_kept(server):
    cut_off(queued("stall"), given_back)
    told = DryRun()
    assert [line.endswith("in doubt: kept for a person") for line in told.lines()] == [True]
    assert told.would_be_sent == 0


def test_a_timeout_of_the_worker_is_not_for_mail():
    """Else its child would be killed while it waits for an answer."""
    options = Options(all_served(), timeout=4)
    assert options.table(Email, "default").policy.time_to_run == TIME_TO_RUN
    assert options.table(Note, "default").policy.time_to_run == 4


# --- with processes -----------------------------------------------------------------------------

TABLE = "dbqueue_mail.email"


def hold_in(server):
    return {**server.environment, "DBQUEUE_MAIL_IN_DOUBT": "hold"}


def is_held():
    return Email.objects.get().mail_state == "in doubt"


def test_it_is_held_after_a_stop_that_did_not_wait_for_the_answer(database_url, server):
    queue_all([letter("stall")])
    with worker(database_url, TABLE, "--shutdown-timeout", "0.5", **hold_in(server)) as process:
        wait_until(lambda: server.unanswered)
        process.send(signal.SIGTERM)
        assert process.end() == 0
    give_back(database_url, process, Email)
    assert not is_held()
    with worker(database_url, TABLE, "--stop-when-empty", **hold_in(server)) as process:
        assert process.end() == 0
    assert is_held()
    assert len(server.unanswered) == 1


def test_it_is_held_where_its_child_is_killed_for_another_job(database_url, server):
    queue_all([letter("stall")])
    tables = (TABLE, "queueapp.note", "--threads", "2")
    with worker(database_url, *tables, **hold_in(server)):
        wait_until(lambda: server.unanswered)
        Note.objects.create(seconds=60, time_to_run=1)
        wait_until(is_held)
    assert len(server.unanswered) == 1
