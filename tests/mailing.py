"""Queued mail, in the tests' own hands."""

import time

import django
from django.core.mail import EmailMultiAlternatives

from django_dbqueue.lifecycle import reap
from django_dbqueue.mail.models import Email
from tests.conftest import fresh
from tests.helpers import table

SMTP = "django.core.mail.backends.smtp.EmailBackend"
HAS_MAILERS = django.VERSION >= (6, 1)
# From Django 6.1 on the project names the mailer that delivers.
USING = {"using": "smtp"} if HAS_MAILERS else {}


def deliver_to(settings, port, backend=SMTP, **more):
    """Configure delivery to a port of this machine, in the way of this version of Django."""
    if HAS_MAILERS:
        options = {"host": "127.0.0.1", "port": port} if backend == SMTP else {}
        settings.MAILERS = {"smtp": {"BACKEND": backend, "OPTIONS": options}}
        settings.DBQUEUE = {"MAIL_USING": "smtp", **more}
    else:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.DBQUEUE = {"MAIL_DELIVERY_BACKEND": backend, **more}


def address(name):
    return f"{name}@x.example"


def message_to(*names, subject="Hello", body="text", **fields):
    to = [address(name) for name in names]
    return EmailMultiAlternatives(subject, body, "shop@x.example", to, **fields)


def email_to(*recipients, **fields):
    fields = {"subject": "Hello", "body": "text", "from_email": "shop@x.example", **fields}
    return Email.from_message(EmailMultiAlternatives(to=list(recipients), **fields))


def queued(*names, wishes=None, **fields):
    email = Email.from_message(message_to(*names, **fields), **USING, **(wishes or {}))
    email.save()
    return email


def run_mail():
    """What a worker does, in one turn."""
    for queue in ("urgent", "default"):
        for job in Email.objects.claim(limit=100, queue=queue):
            run_claimed(job)


def run_claimed(job):
    try:
        job.run()
    except Exception as error:
        job.fail(error)
    else:
        if job.claim_owner is not None:
            job.complete()


def sent(*names, **fields):
    """The row after one attempt."""
    email = queued(*names, **fields)
    run_mail()
    return fresh(email)


def retried(email):
    """The row after the next attempt; MAIL_RETRY_FIRST is to be short."""
    deadline = time.monotonic() + 20
    while not reap.promote(table(Email)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run_mail()
    return fresh(email)


def outcomes(email):
    """By the first part of its address, what became of each recipient."""
    return {
        known.partition("@")[0]: (entry["outcome"], entry["code"])
        for known, entry in email.deliveries.items()
    }
