"""Whatever a server says when it wants to be left alone, it is."""

import pytest

from django_dbqueue.mail.models import Mailer

pytestmark = pytest.mark.usefixtures("db_rows")


def test_a_reason_that_no_database_takes_pauses_the_mailer_all_the_same():
    Mailer.objects.pause("smtp", 100, "421 go\0 away \ud800")
    mailer = Mailer.objects.named("smtp")
    assert 90 < mailer.rest <= 100
    assert mailer.pause_reason.startswith("421 go")
