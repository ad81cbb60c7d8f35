"""What the admin keeps back: secrets in texts that hold JSON, and messages in an export."""

import json

import pytest

from django_dbqueue.admin.masking import MASK, masked
from django_dbqueue.mail.deliveries import Delivery, Outcome
from tests.kit.jobs import overwrite
from tests.kit.mail import finished, queued
from tests.kit.mail_admin import LIST, page_of, text_of


@pytest.mark.parametrize("begin", ["", " ", "\n"])
def test_json_as_text_is_looked_through_wherever_it_begins(begin):
    assert json.loads(masked(begin + '{"password": "s3cret"}')) == {"password": MASK}
    assert json.loads(masked(begin + '[{"pin": 1234}]')) == [{"pin": MASK}]


@pytest.mark.usefixtures("db_rows", "queueing")
def test_an_export_of_mail_holds_no_message_even_for_who_may_read_it(browser):
    email = queued("anna", body="the words of the message")
    data = {"action": "export_selected", "_selected_action": [email.pk]}
    exported = browser.post(LIST, data).getvalue().decode()
    assert "anna@x.example" in exported
    assert "the words of the message" not in exported


@pytest.mark.usefixtures("db_rows", "queueing")
def test_the_list_of_mail_reads_no_messages_for_a_filter_whoever_asks(browser):
    queued("anna", body="the words of the message")
    assert browser.get(LIST, {"message__contains": "words"}).status_code == 400


@pytest.mark.usefixtures("db_rows", "queueing")
@pytest.mark.parametrize("may_inspect", [True, False])
def test_what_a_server_said_of_a_recipient_is_for_those_who_may_inspect(people, may_inspect):
    email = finished(failed=True)
    refusal = Delivery(Outcome.REFUSED, 550, "no such canary here")
    overwrite(email, deliveries={"anna@x.example": refusal.stored()})
    client = people("view_email", *(["inspect_email"] if may_inspect else []))
    page = text_of(client.get(page_of(email)))
    assert "refused" in page
    assert ("no such canary here" in page) == may_inspect
