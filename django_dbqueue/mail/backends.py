"""The backend that queues: ``EMAIL_BACKEND``, or an entry of ``MAILERS`` on Django 6.1.

Messages about errors of the queue itself are queued as well, and must come to an end.
"""

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any

from django.conf import settings
from django.core import mail
from django.core.exceptions import (
    ImproperlyConfigured,
    SynchronousOnlyOperation,
    ValidationError,
)
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import Error, router, transaction

from ..current import current_job, is_workers_own
from ..exceptions import QueueFull
from ..fields import check_name
from ..lifecycle.claim_end import is_last
from ..states import Status
from .conf import mail_conf, mailers_configured
from .models import Email
from .outcomes import explain
from .rows import inserts

logger = logging.getLogger("django_dbqueue")

SWALLOWED = "%s is not queued, and its sender is not told (fail_silently): %s"
LOOP = "mail %r is not queued: it reports on the delivery of email %s, itself a report on email %s"
ENOUGH = (
    "mail %r is not queued: this worker has sent its admins %d within an hour "
    "(DBQUEUE['MAIL_ADMIN_REPORTS'])"
)
AGAIN = (
    "mail %r is not queued: attempt %d of %s, which the admins know to fail, is not the last one"
)
HOUR = 3600.0

# What get_connection() may say of the server, and the setting that says it for the project.
SETTINGS = {
    "host": "EMAIL_HOST",
    "port": "EMAIL_PORT",
    "username": "EMAIL_HOST_USER",
    "password": "EMAIL_HOST_PASSWORD",  # nosec: the name of a setting
    "use_tls": "EMAIL_USE_TLS",
    "use_ssl": "EMAIL_USE_SSL",
    "ssl_keyfile": "EMAIL_SSL_KEYFILE",
    "ssl_certfile": "EMAIL_SSL_CERTFILE",
}
# Django's own, and how long to wait for a server, of which who only queues needs none.
UNHEEDED = {"alias", "_ignore_unknown_kwargs", "timeout"}

_here = threading.local()
# When this process told the admins of its own troubles, by the monotonic clock.
admin_reports_at: list[float] = []


class EmailBackend(BaseEmailBackend):
    """Queue messages with the caller's transaction: rolled back with it, sent after its commit.

    ``using`` names the entry of ``MAILERS`` that delivers (default ``DBQUEUE["MAIL_USING"]``),
    ``queue`` the queue (default ``DBQUEUE["MAIL_QUEUE"]``). ``fail_silently`` keeps errors of the
    database, full queues, messages that cannot be stored and Django's refusal to ask the database
    in async code from the caller: those messages are not queued, and the log says so.
    Another server than that of the project or of ``using`` is refused with a ``ValueError``.
    """

    queues_mail = True

    def __init__(
        self,
        *,
        fail_silently: bool = False,
        using: str | None = None,
        queue: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fail_silently = fail_silently
        self.alias: str | None = kwargs.get("alias")
        self._queue = queue or ""
        check_name(self.queue, "queue")
        self.using = self._deliverer(using)
        self._refuse_other_server(kwargs)

    @property
    def queue(self) -> str:
        """Where messages go that name no queue of their own."""
        return self._queue or str(mail_conf["QUEUE"])

    @property
    def _is_silent(self) -> bool:
        # From Django 6.1 on AdminEmailHandler does not fail silently by itself.
        return self.fail_silently or is_saying()

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Queue the messages, all or none, and return how many; those to nobody are left out.

        One multi-row INSERT (more only beyond 4 MiB). ``ValueError`` names the part of a message
        that cannot be stored. What is sent while an email is delivered (an error that is mailed
        to the admins, say) is queued, but not what is sent while that in its turn is delivered.
        """
        try:
            rows = list(self._rows(email_messages))
            self._insert(rows)
        except (Error, ValidationError, QueueFull, SynchronousOnlyOperation) as error:
            if not self._is_silent:
                raise
            say_once(logging.ERROR, SWALLOWED, "mail", explain(error))
            return 0
        return len(rows)

    def _rows(self, messages: Iterable[EmailMessage]) -> Iterator[Email]:
        about = subject_of_report()
        for message in messages:
            try:
                if message.recipients() and not leads_to_more(message):
                    row = Email.from_message(message, self.using, default_queue=self._queue)
                    row.about = about.pk if about else None
                    yield row
            except (ValueError, ValidationError) as error:
                if not self._is_silent:
                    raise
                what = f"mail {message.subject!r}"
                say_once(logging.ERROR, SWALLOWED, what, explain(error))

    def _insert(self, rows: list[Email]) -> None:
        batches = inserts(rows)
        # Without the savepoint a swallowed error would leave the caller's transaction broken.
        alone = len(batches) < 2 and not self._is_silent
        scope: AbstractContextManager[None] = nullcontext()
        if not alone:
            scope = transaction.atomic(router.db_for_write(Email), savepoint=self._is_silent)
        with scope:
            for batch in batches:
                if len(batch) == 1:
                    # bulk_create() would send a BEGIN and a COMMIT, too.
                    batch[0].save(force_insert=True)
                else:
                    Email.objects.bulk_create(batch)

    def _deliverer(self, using: str | None) -> str:
        if not mailers_configured():
            if using:
                raise ImproperlyConfigured("'using' names an entry of MAILERS, which is not set")
            return ""
        using = using or mail_conf["USING"]
        if not using or using not in mail.mailers:
            raise ImproperlyConfigured(
                f"MAILERS[{self.alias!r}]: OPTIONS must define 'using', the entry of MAILERS "
                f"that delivers, not {using!r}"
            )
        return str(using)

    def _refuse_other_server(self, given: dict[str, Any]) -> None:
        """A worker delivers by what the settings say, whatever the connection was made with."""
        asked = {n: v for n, v in given.items() if n not in UNHEEDED and v not in (None, "")}
        if not asked:
            return
        if mailers_configured():
            entry: dict[str, Any] = settings.MAILERS[self.using]
            usual = dict(entry.get("OPTIONS", {}))
            advice = (
                "add an entry to MAILERS and queue for it, or send without the queue, by "
                "send(using=...) with an entry that delivers"
            )
        else:
            usual = {name: getattr(settings, setting) for name, setting in SETTINGS.items()}
            advice = (
                "send without the queue, by get_connection() with the path of the backend that "
                "delivers"
            )
        if other := [name for name, value in asked.items() if value != usual.get(name)]:
            raise ValueError(
                f"queued mail cannot go out by another {', '.join(sorted(other))} than that of the "
                f"settings: {advice}"
            )


def subject_of_report() -> Email | None:
    """The email that this thread delivers, or whose failure it is telling of."""
    job = current_job()
    return job if isinstance(job, Email) else None


def leads_to_more(message: EmailMessage) -> bool:
    """Whether what is said of this message's delivery could go on for ever; then it is logged.

    The delivery of a message may be reported by email, but not the delivery of that; of its
    attempts the admins are told of the first and the last. What a worker tells of itself, while it
    runs no job (a child died, say), goes to them some times an hour.
    """
    about = subject_of_report()
    if about is not None and about.about is not None:
        say_once(logging.WARNING, LOOP, message.subject, about.pk, about.about)
        return True
    if about is None and not is_workers_own():
        return False
    # Before Django 6.0 an entry is a pair with a name.
    entries: list[Any] = [*settings.ADMINS, *settings.MANAGERS]
    admins = {str(one if isinstance(one, str) or len(one) != 2 else one[1]) for one in entries}
    if not admins.issuperset(map(str, message.recipients())):
        return False
    if about is not None and _is_between(about):
        say_once(logging.INFO, AGAIN, message.subject, about.attempts, about)
        return True
    if is_workers_own() and _have_told_enough():
        say_once(logging.WARNING, ENOUGH, message.subject, mail_conf["ADMIN_REPORTS"])
        return True
    return False


def _is_between(about: Email) -> bool:
    """Whether this is neither the first attempt nor, as far as is known, the last one."""
    if about.attempts <= 1 or is_last(about.claim_policy or about.policy(), [about]):
        return False
    rows = Email._base_manager.using(about._state.db)
    return not rows.filter(pk=about.pk, status=Status.BURIED).exists()


def _have_told_enough() -> bool:
    now = monotonic()
    admin_reports_at[:] = [at for at in admin_reports_at if now - at < HOUR]
    if len(admin_reports_at) >= mail_conf["ADMIN_REPORTS"]:
        return True
    admin_reports_at.append(now)
    return False


def is_saying() -> bool:
    """Whether what is sent now comes from a handler of a log line of ours: its errors are
    nobody's."""
    return getattr(_here, "is_saying", False)


def say_once(level: int, message: str, *args: object) -> None:
    """Log, but not of what a handler of this very line sends."""
    if is_saying():
        return
    _here.is_saying = True
    try:
        logger.log(level, message, *args)
    finally:
        _here.is_saying = False
