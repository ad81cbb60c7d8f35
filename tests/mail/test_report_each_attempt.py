"""A mail that fails again and again is reported to the admins the first time and the last."""

from dataclasses import replace

import pytest

from django_dbqueue.current import running
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from django_dbqueue.states import Status
from django_dbqueue.testing import virtual_clock
from tests.kit.inline_worker import drain
from tests.kit.jobs import fresh, overwrite
from tests.kit.mail import USING, address, letter, queued, warnings_mailed_to_admins

pytestmark = pytest.mark.usefixtures("db_rows")


def reports_about(email):
    rows = Email.objects.filter(about=email.pk).order_by("pk")
    return [row.to_message().body for row in rows]


def test_of_all_failures_the_first_and_the_last_are_reported(server, settings):
    server.to_recipients["later"] = "451 come back later"
    email = queued("later")
    with warnings_mailed_to_admins(settings), virtual_clock() as clock:
        drain(clock, "dbqueue_mail.email")
    assert (fresh(email).status, fresh(email).attempts) == (Status.BURIED, 8)
    first, last = reports_about(email)
    assert "attempt 1 of 8" in first
    assert "attempt 8 of 8" in last


def test_a_worker_s_own_tries_say_which_failure_is_the_last(server, settings):
    server.to_recipients["later"] = "451 come back later"
    email = queued("later")
    with warnings_mailed_to_admins(settings), virtual_clock() as clock:
        drain(clock, "dbqueue_mail.email", "--tries", "10")
    assert (fresh(email).status, fresh(email).attempts) == (Status.BURIED, 10)
    first, last = reports_about(email)
    assert "attempt 1 of 10" in first
    assert "attempt 10 of 10" in last


@pytest.fixture
def tell(settings):
    """Report to the admins, or to somebody else, at an attempt; how many were queued."""
    settings.ADMINS = [address("admin")]

    def call(email, attempts, to="admin"):
        email.attempts = attempts
        with running(email):
            return EmailBackend(alias="x", **USING).send_messages([letter(to)])

    return call


def test_one_that_gives_up_before_its_last_attempt_is_reported_as_well(tell):
    email = queued("anna")
    assert [tell(email, attempts) for attempts in (1, 2, 3)] == [1, 0, 0]
    overwrite(email, status=4)
    assert tell(email, 3) == 1


def test_what_the_last_run_of_a_worker_with_few_tries_tells_is_reported(tell):
    email = queued("anna")
    email.claim_policy = replace(Email.policy(), max_attempts=3)
    assert [tell(email, attempts) for attempts in (1, 2, 3)] == [1, 0, 1]


def test_what_goes_to_others_is_queued_at_each_attempt(tell):
    email = queued("anna")
    assert [tell(email, attempts, "user") for attempts in (1, 2, 3)] == [1, 1, 1]


def test_what_is_not_queued_is_logged(tell, caplog):
    with caplog.at_level("INFO", "django_dbqueue"):
        email = queued("anna")
        tell(email, 2)
    assert f"attempt 2 of email {email.pk}" in caplog.text
