"""Queued mail, in the tests' own hands: messages, rows in any state, and what a worker does."""

import logging
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import django
from django.core.mail import EmailMessage, EmailMultiAlternatives
from django.db.models import Model
from django.utils import timezone
from django.utils.log import AdminEmailHandler

from django_dbqueue.lifecycle import promotion
from django_dbqueue.mail import backends
from django_dbqueue.mail.backends import EmailBackend
from django_dbqueue.mail.deliveries import Deliveries, Delivery
from django_dbqueue.mail.models import ArchivedEmail, Email, Mailer, Suppression
from django_dbqueue.mail.rows import HAVE_ENDED
from django_dbqueue.states import Status
from tests.kit.jobs import claim_one, fresh, overwrite, table
from tests.kit.settings_mail_reports import ADMINS

SMTP = "django.core.mail.backends.smtp.EmailBackend"
MEMORY = "django.core.mail.backends.locmem.EmailBackend"
QUEUED = "django_dbqueue.mail.backends.EmailBackend"
HAS_MAILERS = django.VERSION >= (6, 1)
# From Django 6.1 on the project names the mailer that delivers.
MAILER = "smtp" if HAS_MAILERS else ""
USING: dict[str, Any] = {"using": MAILER} if HAS_MAILERS else {}


# --- the project --------------------------------------------------------------------------------


def deliver_to(settings: Any, port: int, backend: str = SMTP, **more: Any) -> None:
    """Configure delivery to a port of this machine, or, with 0, by a backend that needs none."""
    if "MAIL_TIMEOUT" in more:
        more = {"MAIL_FINAL_TIMEOUT": more["MAIL_TIMEOUT"], **more}
    if HAS_MAILERS:
        options = {"host": "127.0.0.1", "port": port} if port else {}
        settings.MAILERS = {MAILER: {"BACKEND": backend, "OPTIONS": options}}
        settings.DBQUEUE = {"MAIL_USING": MAILER, **more}
    else:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
        settings.DBQUEUE = {"MAIL_DELIVERY_BACKEND": backend, **more}


def queue_into_memory(settings: Any) -> None:
    """Queue what the project sends, and deliver it into memory."""
    deliver_to(settings, 0, MEMORY)
    queue_what_is_sent(settings)


def queue_what_is_sent(settings: Any) -> None:
    if HAS_MAILERS:
        default = {"BACKEND": QUEUED, "OPTIONS": {"using": MAILER}}
        settings.MAILERS = {**settings.MAILERS, "default": default}
    else:
        settings.EMAIL_BACKEND = QUEUED


@contextmanager
def warnings_mailed_to_admins(settings: Any) -> Iterator[None]:
    """The project of ``settings_mail_reports`` in this process."""
    queue_what_is_sent(settings)
    settings.ADMINS = ADMINS
    logger, handler = logging.getLogger("django_dbqueue"), AdminEmailHandler()
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    told, backends.admin_reports_at = backends.admin_reports_at, []
    try:
        yield
    finally:
        logger.removeHandler(handler)
        backends.admin_reports_at = told


def setting(settings: Any, **more: Any) -> None:
    settings.DBQUEUE = {**settings.DBQUEUE, **more}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- messages and their rows --------------------------------------------------------------------


def address(name: str) -> str:
    return name if "@" in name else f"{name}@x.example"


def letter(*to: str, **fields: Any) -> EmailMultiAlternatives:
    """A message to addresses, or to names at x.example."""
    given: dict[str, Any] = {"subject": "Hello", "body": "text", "from_email": "shop@x.example"}
    given["to"] = [address(name) for name in to or ["anna"]]
    return EmailMultiAlternatives(**given | fields)


def email_of(message: EmailMessage, **wishes: Any) -> Email:
    """The row of a message, not saved."""
    return Email.from_message(message, **USING, **wishes)


def enqueue(message: EmailMessage, **wishes: Any) -> Email:
    email = email_of(message, **wishes)
    email.save()
    return email


def queued(*to: str, wishes: dict[str, Any] | None = None, **fields: Any) -> Email:
    return enqueue(letter(*to, **fields), **(wishes or {}))


def queue_all(messages: Sequence[EmailMessage]) -> int:
    """Send them as a project does; how many were queued."""
    return EmailBackend(alias="x", **USING).send_messages(messages)


def finished(message: EmailMessage | None = None, *, failed: bool = False, **outcomes: Any) -> Any:
    """A mail that is sent or has failed; ``outcomes`` by the local part at x.example."""
    email = enqueue(message or letter(), queue="apart")
    job = claim_one(Email, queue="apart")
    deliveries = Deliveries({})
    for name, outcome in outcomes.items():
        deliveries.note([address(name)], Delivery(outcome, 250, "said"))
    job.deliveries = deliveries.stored()
    if failed:
        job.bury("550 no such user")
    else:
        job.complete()
    Email.objects.filter(pk=email.pk).update(queue="default")
    return fresh(job)


def in_state(status: int, *to: str, columns: dict[str, Any] | None = None, **fields: Any) -> Any:
    """A mail that is in this state since now, whoever brought it there."""
    email = queued(*to, **fields)
    overwrite(email, status=status, **(columns or {}))
    if status in HAVE_ENDED:
        overwrite(email, finished_at=timezone.now())
    return fresh(email)


def columns_of(email: Email) -> dict[str, Any]:
    return {field.attname: getattr(email, field.attname) for field in Email._meta.concrete_fields}


def archived(email: Email, **columns: Any) -> ArchivedEmail:
    return archived_all([email], **columns)[0]


def archived_all(emails: Iterable[Email], **columns: Any) -> list[ArchivedEmail]:
    """At once, as where they stay no time in the queue table."""
    columns = {"retry_at": None} | columns
    rows = [ArchivedEmail(**columns_of(email) | columns) for email in emails]
    made: list[ArchivedEmail] = ArchivedEmail.objects.bulk_create(rows)
    Email.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return made


def in_archive(*to: str) -> ArchivedEmail:
    return archived(in_state(Status.DONE, *to))


def exists(row: Model) -> bool:
    return type(row)._base_manager.filter(pk=row.pk).exists()


def all_rows(*models: type[Model]) -> list[list[dict[str, Any]]]:
    """All that the tables of mail hold, and some more tables."""
    models = (Email, ArchivedEmail, Suppression, Mailer, *models)
    return [list(model._base_manager.order_by("pk").values()) for model in models]


# --- what a worker does -------------------------------------------------------------------------


def run_mail() -> None:
    """One turn."""
    for queue in ("urgent", "default"):
        for job in Email.objects.claim(limit=100, queue=queue):
            run_claimed(job)


def run_claimed(job: Email) -> None:
    try:
        job.run()
    except Exception as error:
        job.fail(error)
    else:
        if job.claim_owner is not None:
            job.complete()


def sent(*to: str, **fields: Any) -> Any:
    """The row after one attempt."""
    email = queued(*to, **fields)
    run_mail()
    return fresh(email)


def retried(email: Email) -> Any:
    """The row after the next attempt; MAIL_RETRY_FIRST is to be short."""
    deadline = time.monotonic() + 20
    while not promotion.promote(table(Email)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    run_mail()
    return fresh(email)


def outcomes(email: Email | ArchivedEmail) -> dict[str, tuple[str, int]]:
    """By the first part of its address, what became of each recipient."""
    return {
        known.partition("@")[0]: (entry["outcome"], entry["code"])
        for known, entry in email.deliveries.items()
    }
