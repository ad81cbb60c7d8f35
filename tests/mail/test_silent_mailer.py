"""A mailer that the project has told to fail in silence is heard all the same."""

from typing import Any

import pytest
from django.core.mail.backends import smtp

from django_dbqueue.states import Status
from tests.kit.mail import deliver_to, free_port, sent

pytestmark = pytest.mark.usefixtures("db_rows")


class Silent(smtp.EmailBackend):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"fail_silently": True})


def test_nobody_counts_as_sent_to_where_no_server_is(settings, own_connections):
    deliver_to(settings, free_port(), f"{__name__}.Silent")
    email = sent("anna")
    assert email.status == Status.DELAYED
    assert "ConnectionRefusedError" in email.last_error
