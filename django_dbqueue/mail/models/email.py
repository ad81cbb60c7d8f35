"""The queue table of mail and its archive."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from django.core.mail import EmailMessage
from django.db import models, router, transaction
from django.utils.translation import gettext, gettext_lazy, override, pgettext

from ...lifecycle.table import table_of
from ...models import ArchivedJob, Job, Traced
from ...models.index import HotIndex, PrefixIndex
from ...states import Status
from ...texts.wording import local
from ..backoff import MailBackoff
from ..conf import TIME_TO_RUN, mail_conf
from ..deliveries import SENT, Deliveries, Outcome
from ..headers import (
    MESSAGE_ID,
    GeneratedMessageID,
    QueueingOptions,
    message_id_of,
    options_in,
    own_message_id,
)
from ..outcomes import explain
from ..storing import codec
from .queryset import UNDER_WAY, ArchivedEmailManager, EmailManager, resends_of
from .recipient import RecipientRows, delete_with_rows
from .words import not_there, word_of

WORDS = {
    Status.READY: "unsent",
    Status.CLAIMED: "claimed",
    Status.DONE: "sent",
    Status.BURIED: "failed",
}

# By which emails are looked for: here, since an index that a CharField makes is two on PostgreSQL.
INDEXES = [
    models.Index(fields=["message_id"]),
    HotIndex(fields=["provider_id"], where={"provider_id__isnull": False}),
    HotIndex(fields=["resend_of"], where={"resend_of__isnull": False}),
    PrefixIndex(fields=["subject"]),
]


class EmailFields(Traced):
    """One message: the whole of it in ``message``, next to what lists and searches show."""

    message_id = models.CharField("Message-ID", max_length=255, blank=True)
    subject = models.CharField(max_length=255, blank=True)
    from_email = models.CharField(gettext_lazy("from"), max_length=320, blank=True)
    recipients = models.TextField(blank=True)
    using = models.CharField(gettext_lazy("mailer"), max_length=100, blank=True)
    message = models.TextField(blank=True)
    is_erased = models.BooleanField(gettext_lazy("message erased"), default=False, editable=False)
    # By bare address: outcome, code, text, at.
    deliveries: Any = models.JSONField(default=dict, blank=True, editable=False)
    provider_id = models.CharField(
        gettext_lazy("provider's name for it"), max_length=255, null=True, editable=False
    )
    resend_of = models.BigIntegerField(null=True, editable=False)
    # The email whose delivery it reports on.
    about = models.BigIntegerField(null=True, editable=False)

    # Those of the message that it was made from, one by one.
    given_recipients: Sequence[str] | None = None

    class Meta:
        abstract = True

    def to_message(self) -> EmailMessage:
        """Return the message as it was queued, with the Message-ID it was given then.

        ``ValueError`` where it was erased, or is none that this release can read.
        """
        if self.is_erased:
            raise ValueError("the message was erased: MAIL_KEEP_BODIES, or forget_address")
        message = codec.decode(self.message)
        if self.message_id and own_message_id(message) is None:
            message.extra_headers[MESSAGE_ID] = GeneratedMessageID(self.message_id)
        return message

    def resend(self) -> "Email":
        """Queue the message of a finished email again, with a Message-ID of its own; the new email.

        Those who have got it do not get it twice, unless all have: then it goes to all. Queue,
        priority and mailer are those of the old one. ``ValueError`` says why not: its message was
        erased or is none, it is claimed or still waits, or an email that resends it does.
        """
        database = router.db_for_write(Email, instance=self)
        with transaction.atomic(using=database):
            # As it is now; nobody claims it or resends it as well until the new one is queued.
            rows: Any = type(self)._base_manager.using(database).select_for_update()
            old = rows.filter(pk=self.pk).first()
            if old is None:
                raise ValueError(not_there(self))
            new = again(old, resends_of(table_of(Email, database), [old.pk]))
            new.save(using=database)
        return new

    resend.alters_data = True  # type: ignore[attr-defined]

    def delete(self, using: str | None = None, keep_parents: bool = False) -> Any:
        database = using or router.db_for_write(type(self), instance=self)
        delete = partial(super().delete, using=database, keep_parents=keep_parents)
        return delete_with_rows(table_of(Email, database), [self.pk], delete)

    delete.alters_data = True  # type: ignore[attr-defined]

    @property
    def mail_state(self) -> str:
        """The state in an email's words: unsent, scheduled for .., claimed, sent, partly sent,
        retry at .., failed, in doubt, expired, cancelled. In English, for programs."""
        with override(None):
            return self.mail_state_word

    @property
    def mail_state_word(self) -> str:
        """The same, for people."""
        status, state = self.status, self.state  # type: ignore[attr-defined]
        word = "" if state == "expired" else self._by_deliveries(status)
        if state in {"expired", "cancelled"}:
            return word_of(word or str(state))
        if status == Status.DELAYED:
            at = "?"
            if moment := self.retry_at:  # type: ignore[attr-defined]
                at = f"{local(moment):%Y-%m-%d %H:%M}"
            text = pgettext("state of an email", "scheduled for %(time)s")
            if self.attempts:  # type: ignore[attr-defined]
                text = pgettext("state of an email", "retry at %(time)s")
            return ", ".join(filter(None, [word_of(word), text % {"time": at}]))
        return word_of(word or str(WORDS.get(status, state)))

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is held for a person, as somebody may have got it or not."""
        is_held = self.status == Status.BURIED  # type: ignore[attr-defined]
        return is_held and bool(Deliveries(self.deliveries).doubtful())

    def _by_deliveries(self, status: int) -> str:
        """What the recipients' outcomes say better than the state of the job; '' = nothing."""
        deliveries = Deliveries(self.deliveries)
        sent, others = deliveries.having(SENT), deliveries.having(set(Outcome) - SENT)
        if self.is_in_doubt:
            return "in doubt"
        if sent and others:
            return "partly sent"
        if status == Status.BURIED and sent:
            return "sent"
        if status == Status.DONE and not sent and deliveries.having({Outcome.REFUSED}):
            return "failed"  # it came back later
        if status == Status.DONE and deliveries.having({Outcome.REDIRECTED}):
            return "redirected"
        return ""


class Email(EmailFields, Job):
    """A message in the queue; delivered twice if its worker dies after the server took it.

    Its Message-ID is the same for every attempt.
    """

    side_rows = RecipientRows()
    keeps_time_to_run = True  # its time-outs follow it

    objects: ClassVar[EmailManager] = EmailManager()

    class Meta(Job.Meta):
        verbose_name = gettext_lazy("email")
        indexes = [*Job.Meta.indexes, *(index.clone() for index in INDEXES)]
        permissions = [
            ("resend_email", "Can send email again"),
            ("settle_email", "Can mark email in doubt as sent"),
            ("forget_email", "Can erase the message of email"),
        ]

    class Policy:
        time_to_run = TIME_TO_RUN
        max_attempts: int = mail_conf["MAX_ATTEMPTS"]
        backoff = MailBackoff()
        finish = "each"
        results = ("deliveries", "provider_id")
        limiter = "django_dbqueue.mail.limiter.MailLimiter"
        archive = "dbqueue_mail.ArchivedEmail"
        archive_after = 86400
        prune_after: float | None = mail_conf["KEEP_ROWS"] or None

    def __str__(self) -> str:
        return f"email {self.pk}"

    @classmethod
    def from_message(
        cls,
        message: EmailMessage,
        using: str = "",
        queue: str = "",
        *,
        default_queue: str = "",
        **options: Any,
    ) -> Self:
        """Return the unsaved row for a message; saving it enqueues it.

        ``using`` names the mailer that delivers; ``queue`` and the other ``QueueingOptions`` go
        before those in the message's headers, and these before ``default_queue``. ``ValueError``
        names the part that cannot be stored, the option, or the limit in bytes that the whole
        exceeds.
        """
        given = {name: option for name, option in options.items() if option is not None}
        given |= {"queue": queue} if queue else {}
        usual = {"queue": default_queue or None}
        wanted = QueueingOptions(**{**usual, **options_in(message), **given})
        text = codec.encode(message)
        size, limit = len(text.encode()), mail_conf["MAX_BYTES"]
        if size > limit:
            raise ValueError(
                f"message: {size} bytes as stored; the limit (MAIL_MAX_BYTES) is {limit}"
            )
        recipients = message.recipients()
        row = cls(
            **wanted.columns(),
            using=using,
            message_id=_shown(message_id_of(message), 255),
            subject=_shown(message.subject, 255),
            from_email=_shown(message.from_email, 320),
            recipients=_shown(", ".join(map(str, recipients))),
            message=text,
        )
        row.given_recipients = [*map(str, recipients)]
        return row

    def run(self) -> None:
        from ..sending.send import send  # noqa: PLC0415  # needs the models

        send(self)


class ArchivedEmail(EmailFields, ArchivedJob):
    """A message that was sent a while ago."""

    objects: ClassVar[ArchivedEmailManager] = ArchivedEmailManager()

    class Meta(ArchivedJob.Meta):
        verbose_name = gettext_lazy("archived email")
        indexes = [
            *ArchivedJob.Meta.indexes,
            # Those whose messages are still to be erased.
            models.Index(fields=["is_erased", "finished_at"]),
            *(index.clone() for index in INDEXES),
        ]

    def __str__(self) -> str:
        return f"archived email {self.pk}"


def read(email: EmailFields) -> EmailMessage:
    """Its message, whatever is stored there; ``ValueError`` says in one line why there is none."""
    try:
        return email.to_message()
    except ValueError:
        raise
    except Exception as error:  # why: a hand may have written anything there
        raise ValueError(f"it cannot be read: {explain(error)}") from error


def again(old: Any, resends: Mapping[Any, Any]) -> Email:
    """The unsaved email that sends an old one again, whose row is locked; ``ValueError`` says why
    there is none. ``resends``: by the key of an email, that which sends it again already."""
    _refuse_under_way(old, resends)
    message = read(old)
    headers = message.extra_headers.items()
    message.extra_headers = {k: v for k, v in headers if k.lower() != "message-id"}
    new = Email.from_message(message, old.using, old.queue, priority=old.priority)
    new.resend_of, new.about = old.pk, old.about
    before, after = Deliveries(old.deliveries), Deliveries({})
    if before.waiting(message.recipients(), refused_too=True):
        after.by_address = before.having(SENT)
    new.deliveries = after.stored()
    return new


def _refuse_under_way(old: Any, resends: Mapping[Any, Any]) -> None:
    status = old.status if isinstance(old, Email) else Status.DONE
    if status == Status.CLAIMED:
        text = gettext("%(email)s is claimed just now; who has got it is known when that ends")
        raise ValueError(text % {"email": old})
    if status in UNDER_WAY:
        text = gettext("%(email)s still waits to be sent; retry it instead")
        raise ValueError(text % {"email": old})
    other = resends.get(old.pk)
    if other is not None:
        text = gettext("%(email)s is being sent again by email %(other)s, which is not finished")
        raise ValueError(text % {"email": old, "other": other})


def _shown(value: Any, limit: int | None = None) -> str:
    # Half a surrogate pair is kept in the message alone: no database takes it.
    return str("" if value is None else value).encode(errors="replace").decode()[:limit]
