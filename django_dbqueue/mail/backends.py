"""The backend that queues: ``EMAIL_BACKEND``, or an entry of ``MAILERS`` on Django 6.1."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.conf import settings
from django.core import mail
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.db import Error, router, transaction

from ..fields import check_name
from .conf import mail_conf, mailers_configured
from .models import Email
from .outcomes import explain
from .reports import is_saying, leads_to_more, say_once, subject_of_report

SWALLOWED = "%s is not queued, and its sender is not told (fail_silently): %s"

# What one INSERT carries at most: well below the smallest packet limit that servers come with.
INSERT_BYTES = 4 * 1024 * 1024

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
# Those of Django's own, and how long who only queues would wait for a server.
UNHEEDED = {"alias", "_ignore_unknown_kwargs", "timeout"}


class EmailBackend(BaseEmailBackend):
    """Queue messages with the caller's transaction: rolled back with it, sent after its commit.

    ``using`` names the entry of ``MAILERS`` that delivers (default ``DBQUEUE["MAIL_USING"]``),
    ``queue`` the queue (default ``DBQUEUE["MAIL_QUEUE"]``). ``fail_silently`` keeps errors of the
    database and messages that cannot be stored from the caller: those messages are not queued, and
    the log says so.
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
        """Where mail goes that names no queue of its own."""
        return self._queue or str(mail_conf["QUEUE"])

    @property
    def _is_silent(self) -> bool:
        # From Django 6.1 on AdminEmailHandler does not fail silently by itself.
        return self.fail_silently or is_saying()

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        """Queue the messages, all or none, and return how many; those to nobody are left out.

        One multi-row INSERT (more only beyond 4 MiB). ``ValueError`` names the part of a message
        that cannot be stored. What is sent while a mail is delivered (an error that is mailed to
        the admins, say) is queued, but not what is sent while that in its turn is delivered.
        """
        try:
            rows = list(self._rows(email_messages))
            self._insert(list(_batches(rows)))
        except (Error, ValidationError) as error:
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
                    row = Email.from_message(message, self.using, self._queue)
                    row.about = about.pk if about else None
                    yield row
            except (ValueError, ValidationError) as error:
                if not self._is_silent:
                    raise
                what = f"mail {message.subject!r}"
                say_once(logging.ERROR, SWALLOWED, what, explain(error))

    def _insert(self, batches: list[list[Email]]) -> None:
        with self._together(len(batches)):
            for batch in batches:
                _insert(batch)

    def _together(self, inserts: int) -> AbstractContextManager[None]:
        if inserts < 2 and not self._is_silent:
            return nullcontext()
        # Without the savepoint a swallowed error would leave the caller's transaction broken.
        alias = router.db_for_write(Email)
        return transaction.atomic(using=alias, savepoint=self._is_silent)

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
        usual = self._usual_server() if asked else {}
        other = [name for name, value in asked.items() if value != usual.get(name)]
        if other:
            raise ValueError(
                f"queued mail cannot go out by another {', '.join(sorted(other))} than that of the "
                "settings: add an entry to MAILERS and queue for it, or send without the queue, by "
                "get_connection() with the path of the backend that delivers"
            )

    def _usual_server(self) -> dict[str, Any]:
        if mailers_configured():
            entry: dict[str, Any] = settings.MAILERS[self.using]
            return dict(entry.get("OPTIONS", {}))
        return {name: getattr(settings, setting) for name, setting in SETTINGS.items()}


def _insert(batch: list[Email]) -> None:
    if len(batch) == 1:
        # bulk_create() would send a BEGIN and a COMMIT, too.
        batch[0].save(force_insert=True)
    else:
        Email.objects.bulk_create(batch)


def _batches(rows: list[Email]) -> Iterator[list[Email]]:
    batch: list[Email] = []
    size = 0
    for row in rows:
        if batch and size + len(row.message.encode()) > INSERT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row.message.encode())
    if batch:
        yield batch
