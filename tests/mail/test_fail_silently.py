"""What ``fail_silently`` keeps from the sender of a mail stands in the log."""

import asyncio
import logging
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.core.mail import EmailMessage
from django.db import OperationalError, connection, connections, transaction

from django_dbqueue.current import running
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from tests.kit.jobs import claim_one, forget_tables
from tests.kit.mail import USING, enqueue, letter, warnings_mailed_to_admins
from tests.kit.settings_mail_reports import ADMIN, ADMINS

pytestmark = pytest.mark.usefixtures("queueing", "db_rows")


@pytest.fixture
def database_is_away(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its connection is gone, and there is no other."""

    def refuse(*_: Any) -> None:
        raise OperationalError("no server answers")

    with monkeypatch.context() as broken:
        connections.close_all()
        broken.setattr(connection, "get_new_connection", refuse)
        yield


def send(*messages: EmailMessage) -> int:
    return EmailBackend(fail_silently=True, alias="x", **USING).send_messages(messages)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "django_dbqueue"]


def test_mail_that_is_lost_while_the_database_is_away_leaves_a_line(
    database_is_away: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert send(letter(), letter()) == 0
    [line] = lines(caplog)
    assert "fail_silently" in line
    assert "OperationalError: no server answers" in line
    assert caplog.records[0].levelno == logging.ERROR


def test_a_message_that_cannot_be_stored_leaves_a_line_with_its_subject_and_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert send(letter(), letter("b@x.example\n", subject="Second")) == 1
    [line] = lines(caplog)
    assert "mail 'Second' is not queued" in line
    assert "to[0] must not contain line breaks" in line


def test_a_connection_that_is_closed_under_our_hands_is_not_the_senders_business(
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection.ensure_connection()
    connection.connection.close()
    try:
        assert send(letter()) == 0
    finally:
        connection.connection = None
    assert "fail_silently" in lines(caplog)[0]


def test_nor_is_what_django_asks_of_async_code(
    caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    async def send_it(**silently: Any) -> Any:
        return EmailBackend(alias="x", **USING, **silently).send_messages([letter()])

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(send_it())
    with warnings_mailed_to_admins(settings):
        assert asyncio.run(send_it(fail_silently=True)) == 0
    assert "fail_silently" in lines(caplog)[0]
    assert Email.objects.count() == 0


def test_a_report_on_a_mail_is_silent_too_where_its_own_history_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.ADMINS = ADMINS
    enqueue(letter())
    job = claim_one(Email)
    job.attempts = 2
    with running(job), monkeypatch.context() as broken:
        broken.setattr(Email._meta, "db_table", "no_such_table")
        forget_tables()
        assert send(letter(ADMIN)) == 0
    forget_tables()
    assert "fail_silently" in lines(caplog)[0]


def test_a_line_that_is_mailed_to_the_admins_comes_to_an_end(
    settings: Any, database_is_away: None, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings_mailed_to_admins(settings):
        assert send(letter()) == 0
    assert len([line for line in lines(caplog) if "fail_silently" in line]) == 1


def test_a_line_that_is_mailed_to_the_admins_does_not_break_the_senders_transaction(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings_mailed_to_admins(settings), transaction.atomic():
        with monkeypatch.context() as broken:
            broken.setattr(Email._meta, "db_table", "no_such_table")
            forget_tables()
            assert send(letter()) == 0
        forget_tables()
        enqueue(letter())
    assert Email.objects.count() == 1
