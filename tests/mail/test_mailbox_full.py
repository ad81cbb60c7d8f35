"""552 says three things: too many recipients, a full mailbox, or a message that is too big."""

import pytest

from django_dbqueue.states import Status
from tests.kit.mail import outcomes, retried, sent

pytestmark = pytest.mark.usefixtures("db_rows")


@pytest.mark.parametrize("text", ["5.5.3 too many recipients", "5.2.2 mailbox full", "storage"])
def test_to_a_recipient_it_is_temporary_whatever_it_says(server, text):
    server.to_recipients["anna"] = f"552 {text}"
    email = sent("anna", "berta")
    assert outcomes(email) == {"anna": ("deferred", 552), "berta": ("delivered", 250)}
    server.to_recipients.clear()
    assert retried(email).mail_state == "sent"
    assert (server.got("anna"), server.got("berta")) == (1, 1)


def test_a_full_mailbox_that_shows_with_the_whole_message_is_tried_again(server):
    server.to_messages["anna"] = "552 5.2.2 over quota"
    email = sent("anna")
    assert (email.status, outcomes(email)) == (Status.DELAYED, {"anna": ("deferred", 552)})
    server.to_messages.clear()
    assert retried(email).mail_state == "sent"


@pytest.mark.parametrize("text", ["5.3.4 message too big", "5.2.3 too long", "no room 5.2.21", ""])
def test_a_message_that_is_too_big_has_failed(server, text):
    server.to_messages["anna"] = f"552 {text}"
    email = sent("anna")
    assert (email.status, outcomes(email)) == (Status.BURIED, {"anna": ("refused", 552)})
