"""One person's mail in every state, to be forgotten."""

from django.core.mail import EmailMessage
from django.utils import timezone

from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.mail.rows import HAVE_ENDED
from django_dbqueue.states import Status
from tests.conftest import fresh
from tests.helpers import overwrite

ANNA = "anna@x.example"


def email(to, **fields):
    fields = {"subject": "Hi", "body": "Dear Anna", "from_email": "shop@x.example", **fields}
    return Email.from_message(EmailMessage(to=[to] if isinstance(to, str) else to, **fields))


def queued(to, status=Status.READY, **fields):
    columns, queue = fields.pop("columns", {}), fields.pop("queue", "default")
    made = email(to, **fields)
    made.queue = queue
    made.save()
    overwrite(made, status=status, **columns)
    if status in HAVE_ENDED:
        overwrite(made, finished_at=timezone.now())
    return fresh(made)


def archived(to, **fields):
    made = queued(to, Status.DONE, **fields)
    row = ArchivedEmail.objects.create(
        **{f.attname: getattr(made, f.attname) for f in ArchivedEmail._meta.concrete_fields}
    )
    Email.objects.filter(pk=made.pk).delete()
    return row


def exists(row):
    return type(row)._base_manager.filter(pk=row.pk).exists()


def everything():
    """All that the tables of mail hold, as text."""
    return str(
        [list(m._base_manager.values()) for m in (Email, ArchivedEmail, Suppression, Mailer)]
    )
