"""The queue table of mail and its archive."""

from typing import Any, Self

from django.core.mail import EmailMessage, make_msgid
from django.core.mail.utils import DNS_NAME
from django.db import models
from django.utils import timezone

from ..models import ArchivedJob, Job
from ..states import Status
from . import codec, delivery
from .backoff import MailBackoff
from .conf import mail_conf

WORDS = {
    Status.READY: "unsent",
    Status.CLAIMED: "claimed",
    Status.DONE: "sent",
    Status.BURIED: "failed",
}


class EmailFields(models.Model):
    """One message: the whole of it in ``message``, beside what lists and searches show."""

    message_id = models.CharField("Message-ID", max_length=255, blank=True, db_index=True)
    subject = models.CharField(max_length=255, blank=True)
    from_email = models.CharField("from", max_length=320, blank=True)
    recipients = models.TextField(blank=True)
    using = models.CharField("mailer", max_length=100, blank=True)
    message = models.TextField(blank=True)

    class Meta:
        abstract = True

    def to_message(self) -> EmailMessage:
        """Return the message as it was queued, with the Message-ID it was given then."""
        message = codec.decode(self.message)
        if self.message_id and _header(message, "Message-ID") is None:
            message.extra_headers["Message-ID"] = self.message_id
        return message

    @property
    def mail_state(self) -> str:
        """The state in mail's words: unsent, claimed, sent, retry at .., failed, expired."""
        status, state = self.status, self.state  # type: ignore[attr-defined]
        if status == Status.DELAYED:
            return f"retry at {_local(self.retry_at)}"  # type: ignore[attr-defined]
        return str(state if state == "expired" else WORDS.get(status, state))


class Email(EmailFields, Job):
    """A message in the queue; delivered twice if its worker dies after the server took it.

    Its Message-ID is the same for every attempt.
    """

    class Meta(Job.Meta):
        verbose_name = "email"

    class Policy:
        time_to_run = 300
        max_attempts: int = mail_conf["MAX_ATTEMPTS"]
        backoff = MailBackoff()
        finish = "each"
        archive = "dbqueue_mail.ArchivedEmail"
        archive_after = 86400

    def __str__(self) -> str:
        return f"email {self.pk}"

    @classmethod
    def from_message(cls, message: EmailMessage, using: str = "", queue: str = "") -> Self:
        """Return the unsaved row for a message; saving it enqueues it.

        ``using`` names the mailer that delivers. ``ValueError`` names the part that cannot be
        stored, or the limit in bytes that the whole exceeds.
        """
        text = codec.encode(message)
        _check_size(text)
        return cls(
            queue=queue or mail_conf["QUEUE"],
            using=using,
            message_id=_shown(_message_id(message), 255),
            subject=_shown(message.subject, 255),
            from_email=_shown(message.from_email, 320),
            recipients=_shown(", ".join(map(str, message.recipients()))),
            message=text,
        )

    def run(self) -> None:
        delivery.send(self)


class ArchivedEmail(EmailFields, ArchivedJob):
    """A message that was sent a while ago."""

    class Meta(ArchivedJob.Meta):
        verbose_name = "archived email"

    def __str__(self) -> str:
        return f"archived email {self.pk}"


def _check_size(text: str) -> None:
    size, limit = len(text.encode()), mail_conf["MAX_BYTES"]
    if size > limit:
        raise ValueError(f"message: {size} bytes as stored; the limit (MAIL_MAX_BYTES) is {limit}")


def _message_id(message: EmailMessage) -> str:
    return str(_header(message, "Message-ID") or make_msgid(domain=str(DNS_NAME)))


def _header(message: EmailMessage, wanted: str) -> Any:
    found = [v for name, v in message.extra_headers.items() if name.lower() == wanted.lower()]
    return found[0] if found else None


def _shown(value: Any, limit: int | None = None) -> str:
    # Half a surrogate pair is kept in the message alone: no database takes it.
    return str(value).encode(errors="replace").decode()[:limit]


def _local(moment: Any) -> str:
    if moment is None:
        return "?"
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return f"{local:%Y-%m-%d %H:%M}"
