"""Mail about the delivery of mail comes to an end."""

import logging
import signal

import pytest

from django_dbqueue.current import current_job, running, workers_own
from django_dbqueue.mail import backends
from django_dbqueue.mail.models import Email
from tests.kit.inline_worker import work_off
from tests.kit.mail import address, letter, queue_all, queued, warnings_mailed_to_admins
from tests.kit.processes import worker
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")

MAIL = "dbqueue_mail.email"


def report():
    return queue_all([letter("admin", subject="Oh")])


def test_what_is_sent_while_a_mail_is_delivered_says_which_one():
    email = queued("anna")
    with running(email):
        assert report() == 1
    assert Email.objects.latest("pk").about == email.pk
    assert report() == 1
    assert Email.objects.latest("pk").about is None


def test_a_report_on_a_report_is_not_queued_but_logged(caplog):
    email = queued("anna")
    email.about = 17
    with running(email), caplog.at_level(logging.WARNING, "django_dbqueue"):
        assert report() == 0
    assert Email.objects.count() == 1
    assert f"it reports on the delivery of email {email.pk}" in caplog.text


def test_a_handler_that_mails_that_very_warning_does_not_go_round_in_circles(caplog):
    class Mailing(logging.Handler):
        def emit(self, record):
            report()

    email, handler = queued("anna"), Mailing()
    email.about = 17
    logging.getLogger("django_dbqueue").addHandler(handler)
    try:
        with running(email):
            assert report() == 0
    finally:
        logging.getLogger("django_dbqueue").removeHandler(handler)
    assert Email.objects.count() == 1


def test_no_job_runs_outside_of_a_worker():
    assert current_job() is None


def test_an_admin_whose_address_is_refused_gets_one_report_for_each_mail(server, settings):
    server.to_recipients["refuse-admin"] = "550 no such admin"
    for _ in range(2):
        queued("refuse")
    with warnings_mailed_to_admins(settings):
        work_off(MAIL, "--max-jobs", "9")  # it would go on for ever
    assert Email.objects.buried().count() == 4
    about = sorted(email.about or 0 for email in Email.objects.all())
    first, second = sorted(Email.objects.filter(about=None).values_list("pk", flat=True))
    assert about == [0, 0, first, second]


def test_what_a_worker_tells_of_itself_comes_to_an_end(database_url):
    """Each report kills the child that is to send it, which is reported."""
    queued("anna")
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.kit.settings_deadly_mailer",
        "DBQUEUE_TESTS": "1",
        "DBQUEUE_MAIL_ADMIN_REPORTS": "2",
    }
    with worker(database_url, MAIL, **environment) as process:
        wait_until(lambda: Email.objects.buried().count() >= 3)
        wait_until(lambda: Email.objects.buried().count() == Email.objects.count())
        process.send(signal.SIGTERM)
        process.end()
    # Two reports of the supervisor, and two of its agent.
    assert Email.objects.count() <= 5


def test_only_what_goes_to_the_admins_and_only_a_workers_own_is_counted(settings, monkeypatch):
    monkeypatch.setattr(backends, "admin_reports_at", [])
    settings.ADMINS = [address("admin")]
    settings.DBQUEUE = {**settings.DBQUEUE, "MAIL_ADMIN_REPORTS": 1}
    with workers_own():
        assert [report() for _ in range(3)] == [1, 0, 0]
        assert queue_all([letter("user") for _ in range(3)]) == 3
        with running(queued("anna")):
            assert report() == 1
    assert report() == 1
