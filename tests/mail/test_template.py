"""Mail of which the provider's template has the subject and the sender, as anymail describes it."""

import pytest
from django.core.mail import EmailMessage

from django_dbqueue.mail.models import Email
from tests.kit.mail import HAS_MAILERS

USING = {"using": "out"} if HAS_MAILERS else {}


def from_template(**fields):
    message = EmailMessage("Hello", "text", "shop@x.example", ["anna@x.example"])
    vars(message).update(fields)
    return message


def test_what_the_template_has_is_left_to_it():
    email = Email.from_message(
        from_template(template_id="welcome", subject=None, from_email=None), **USING
    )
    assert (email.subject, email.from_email) == ("", "")
    message = email.to_message()
    assert (message.subject, message.from_email) == (None, None)
    assert message.template_id == "welcome"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["subject", "from_email"])
def test_without_a_template_it_must_be_there(name):
    with pytest.raises(ValueError, match=f"{name} must be text"):
        Email.from_message(from_template(**{name: None}), **USING)
