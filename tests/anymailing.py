"""Mail that a provider delivers, by django-anymail."""

from django.core.mail import EmailMessage

from django_dbqueue.mail.models import Email
from tests.conftest import fresh
from tests.helpers import overwrite
from tests.mailing import run_mail

POSTMARK = "anymail.backends.postmark.EmailBackend"
TAKEN = {"ErrorCode": 0, "Message": "OK", "MessageID": "pm-1", "To": "anna@x.example"}


def queued(*to, **extra):
    message = EmailMessage("Hi", "text", "shop@x.example", list(to) or ["anna@x.example"])
    vars(message).update(extra)
    email = Email.from_message(message)
    email.save()
    return email


def sent(*to, provider_id="esp-1"):
    """Mail that a provider took, which is in the archive by now or not."""
    email = queued(*to)
    run_mail()
    overwrite(email, provider_id=provider_id)
    return fresh(email)
