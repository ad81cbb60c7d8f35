"""Mail for the tests: a project that queues it and delivers into memory, and mail in any state."""

from typing import Any

import django
from django.core.mail import EmailMessage

from django_dbqueue.mail.deliveries import Deliveries, Delivery, Outcome
from django_dbqueue.mail.models import ArchivedEmail, Email
from tests.conftest import fresh

QUEUED = "django_dbqueue.mail.backends.EmailBackend"
MEMORY = "django.core.mail.backends.locmem.EmailBackend"
HAS_MAILERS = django.VERSION >= (6, 1)


def queue_into_memory(settings: Any) -> None:
    if HAS_MAILERS:
        settings.MAILERS = {
            "default": {"BACKEND": QUEUED, "OPTIONS": {"using": "out"}},
            "out": {"BACKEND": MEMORY},
        }
        settings.DBQUEUE = {"MAIL_USING": "out"}
    else:
        settings.EMAIL_BACKEND = QUEUED
        settings.DBQUEUE = {"MAIL_DELIVERY_BACKEND": MEMORY}


def letter(*to: str, **fields: Any) -> EmailMessage:
    fields = {"subject": "Hello", "body": "text", "from_email": "shop@x.example", **fields}
    return EmailMessage(to=list(to or ["anna@x.example"]), **fields)


def queued(message: EmailMessage | None = None, **wishes: Any) -> Email:
    email = Email.from_message(message or letter(), using="out" if HAS_MAILERS else "", **wishes)
    email.save()
    return email


def finished(
    message: EmailMessage | None = None, *, failed: bool = False, **outcomes: Outcome
) -> Email:
    """A mail that is sent or has failed; ``outcomes`` by the local part at x.example."""
    email = queued(message, queue="apart")
    [job] = Email.objects.claim(limit=1, queue="apart")
    deliveries = Deliveries({})
    for name, outcome in outcomes.items():
        deliveries.note([f"{name}@x.example"], Delivery(outcome, 250, "said"))
    job.deliveries = deliveries.stored()
    if failed:
        job.bury("550 no such user")
    else:
        job.complete()
    Email.objects.filter(pk=email.pk).update(queue="default")
    return fresh(job)  # type: ignore[no-any-return]


def archived(email: Email) -> ArchivedEmail:
    values = {f.attname: getattr(email, f.attname) for f in Email._meta.concrete_fields}
    Email.objects.filter(pk=email.pk).delete()
    return ArchivedEmail.objects.create(**values)
