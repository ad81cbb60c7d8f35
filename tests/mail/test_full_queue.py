"""Mail whose queue is full."""

import pytest
from django.core.mail import send_mail

from django_dbqueue.exceptions import QueueFull
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.models import Email
from tests.kit.bounds import limits
from tests.kit.mail import USING, letter

pytestmark = pytest.mark.usefixtures("queueing", "db_rows")
EMAIL = "dbqueue_mail.email"


def test_the_sender_is_told() -> None:
    with limits(EMAIL, max_length=1):
        send_mail("one", "text", "shop@x.example", ["anna@x.example"])
        with pytest.raises(QueueFull):
            send_mail("two", "text", "shop@x.example", ["anna@x.example"])
    assert Email.objects.get().subject == "one"


def test_who_fails_silently_is_not_but_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with limits(EMAIL, max_length=1):
        silent = EmailBackend(fail_silently=True, alias="x", **USING)
        assert silent.send_messages([letter()]) == 1
        assert silent.send_messages([letter(), letter()]) == 0
        assert silent.send_messages([letter()]) == 0
    assert "fail_silently" in caplog.text
    assert "QueueFull" in caplog.text
    assert Email.objects.count() == 1
