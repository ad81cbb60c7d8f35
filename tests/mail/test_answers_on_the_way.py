"""What is said around a message: who is forwarded to, hung up on, and said goodbye to."""

import pytest

from django_dbqueue.states import Status
from tests.kit.mail import outcomes, sent
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.usefixtures("db_rows")


def test_whom_the_server_forwards_to_has_got_it(server):
    server.to_recipients["anna"] = "251 2.1.5 not here, it will be forwarded"
    email = sent("anna", "berta")
    assert (email.status, email.mail_state) == (Status.DONE, "sent")
    assert outcomes(email) == {"anna": ("delivered", 250), "berta": ("delivered", 250)}
    assert (server.got("anna"), len(server.received)) == (1, 1)


def test_who_hangs_up_in_the_middle_of_a_message_is_not_asked_again_at_once(server):
    sent("anna")
    email = sent("reset")
    assert email.status == Status.DELAYED
    assert server.connections == 1


def test_after_an_error_the_server_hears_a_goodbye(server):
    sent("spam")
    wait_until(lambda: server.goodbyes == 1)
