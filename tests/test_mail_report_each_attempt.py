"""A mail that fails again and again is reported to the admins the first time and the last."""

import signal

import pytest

from django_dbqueue.current import running
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from tests.kit.jobs import overwrite
from tests.kit.mail import USING, address, letter, queued
from tests.kit.processes import worker
from tests.kit.smtp_server import ScriptedServer
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


def reports_about(email):
    rows = Email.objects.filter(about=email.pk).order_by("pk")
    return [row.to_message().body for row in rows]


def attempts_until_the_end(database_url, answer, **more):
    """What the admins were told of one mail, until it failed."""
    server = ScriptedServer()
    server.to_recipients["later"] = answer
    email = queued("later")
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.kit.settings_mail_reports",
        "DBQUEUE_TESTS": "1",
        "DBQUEUE_MAIL_MAX_ATTEMPTS": "4",
        "DBQUEUE_MAIL_RETRY_FIRST": "0.05",
        "DBQUEUE_MAIL_RETRY_FACTOR": "1",
        "EMAIL_HOST": "127.0.0.1",
        "EMAIL_PORT": str(server.port),
    }
    with worker(database_url, **environment) as process:
        wait_until(lambda: Email.objects.buried().filter(pk=email.pk).exists())
        process.send(signal.SIGTERM)
        assert process.end() == 0
    server.close()
    return reports_about(email)


def test_of_four_failures_the_first_and_the_last_are_reported(database_url):
    first, last = attempts_until_the_end(database_url, "451 come back later")
    assert "attempt 1 of 4" in first
    assert "attempt 4 of 4" in last


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


def test_what_goes_to_others_is_queued_at_each_attempt(tell):
    email = queued("anna")
    assert [tell(email, attempts, "user") for attempts in (1, 2, 3)] == [1, 1, 1]


def test_what_is_not_queued_is_logged(tell, caplog):
    with caplog.at_level("INFO", "django_dbqueue"):
        email = queued("anna")
        tell(email, 2)
    assert f"attempt 2 of email {email.pk}" in caplog.text
