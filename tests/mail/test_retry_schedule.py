"""When mail is tried again, whom for, and what the row says once nobody is tried any more."""

from datetime import timedelta

import pytest
from django.utils import timezone

from django_dbqueue.fields import DbNow
from django_dbqueue.lifecycle import promotion
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from tests.kit.jobs import fresh, overwrite, table
from tests.kit.mail import outcomes, queued, run_mail, sent

pytestmark = pytest.mark.usefixtures("db_rows", "impatient")

MOST = Email.policy().max_attempts
MINUTES = [20, 40, 80, 160, 320, 360, 360]


@pytest.fixture(autouse=True)
def as_by_default(server, settings):
    settings.DBQUEUE = {k: v for k, v in settings.DBQUEUE.items() if k != "MAIL_RETRY_FIRST"}
    # Doubts alone are not to end it.
    settings.DBQUEUE["MAIL_IN_DOUBT_REPEATS"] = MOST


def wait_of(email):
    """Seconds until it is tried again, by the database's clock."""
    row = Email.objects.annotate(now=DbNow()).get(pk=email.pk)
    assert row.status == Status.DELAYED
    return (row.retry_at - row.now).total_seconds()


def due(email):
    overwrite(email, retry_at=timezone.now() - timedelta(minutes=1))
    assert promotion.promote(table(Email)) == 1
    run_mail()
    return fresh(email)


def attempts_of(email):
    """The waits after each attempt that was not the last one."""
    waits = []
    while email.status == Status.DELAYED:
        waits.append(wait_of(email))
        email = due(email)
    return waits, email


def assert_growing(waits):
    assert len(waits) == MOST - 1 == len(MINUTES)
    for wait, minutes in zip(waits, MINUTES, strict=True):
        # The clock has gone on since.
        assert 0.89 * minutes * 60 - 30 <= wait <= 1.11 * minutes * 60
    assert len({round(wait / (60 * m), 6) for wait, m in zip(waits, MINUTES, strict=True)}) > 1


@pytest.mark.parametrize("name", ["defer", "late", "stall"])
def test_what_nobody_takes_is_tried_less_and_less_often_and_fails_in_the_end(server, name):
    server.stall = lambda: None
    waits, email = attempts_of(sent(name))
    assert_growing(waits)
    assert (email.status, email.attempts) == (Status.BURIED, MOST)


def test_greylisting_of_some_is_waited_for_as_that_of_all(server):
    server.to_recipients |= {"grey": "451 4.7.1 greylisted", "slow": "450 4.2.0 try later"}
    waits, email = attempts_of(sent("anna", "grey", "slow", "refuse"))
    assert_growing(waits)
    assert (email.status, email.mail_state) == (Status.BURIED, "partly sent")
    assert outcomes(email) == {
        "anna": ("delivered", 250),
        "grey": ("deferred", 451),
        "slow": ("deferred", 450),
        "refuse": ("refused", 550),
    }
    assert server.got("anna") == 1
    assert "greylisted" in email.last_error


def test_the_last_answer_to_each_recipient_stays(server):
    server.to_recipients |= {"grey": "451 4.7.1 greylisted", "slow": "450 4.2.0 try later"}
    email = due(sent("grey", "slow"))
    server.to_recipients |= {"grey": "452 4.2.2 mailbox full", "slow": "550 5.1.1 gone by now"}
    _, email = attempts_of(due(email))
    assert (email.status, email.mail_state) == (Status.BURIED, "failed")
    assert outcomes(email) == {"grey": ("deferred", 452), "slow": ("refused", 550)}
    assert "452" in email.last_error


def test_greylisting_that_ends_gets_everybody_the_mail_once(server):
    server.to_recipients |= {"grey": "451 4.7.1 greylisted"}
    email = sent("anna", "grey")
    assert email.mail_state.startswith("partly sent, retry at ")
    server.to_recipients.clear()
    email = due(email)
    assert (email.status, email.mail_state, email.attempts) == (Status.DONE, "sent", 2)
    assert (server.got("anna"), server.got("grey")) == (1, 1)
    assert len({one.message["Message-ID"] for one in server.received}) == 1


def test_a_person_gives_it_all_its_attempts_once_more(server):
    _, email = attempts_of(sent("anna", "defer"))
    Email.objects.filter(pk=email.pk).kick()
    run_mail()
    assert (fresh(email).status, fresh(email).attempts) == (Status.DELAYED, 1)
    assert 0.89 * 1200 - 30 <= wait_of(email) <= 1.11 * 1200


def test_a_turn_that_is_waited_for_costs_no_attempt_and_no_longer_wait(server, settings):
    name = queued("anna").using or "default"
    run_mail()
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_LIMITS": {name: {"hour": 1}}}
    sent("berta")
    email = sent("defer")
    assert (email.status, email.attempts) == (Status.DELAYED, 0)
    del settings.DBQUEUE["MAIL_LIMITS"]
    email = due(email)
    assert email.attempts == 1
    assert wait_of(email) <= 1.11 * 1200
