"""Sending a message once more: as a new mail in the queue, which knows which one it resends."""

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.mail import EmailMessage
from django.db import router, transaction

from ..lifecycle.table import table_of
from ..states import Status
from .deliveries import SENT, Deliveries
from .models.queryset import UNDER_WAY, resends_of
from .storing.reading import read

if TYPE_CHECKING:
    from .models import Email
    from .models.email import EmailFields


def resend(email: "EmailFields") -> "Email":
    """Queue the message of a finished mail again, with a Message-ID of its own; the new mail.

    Whoever has got it does not get it twice, unless all have: then it goes to all. Queue, priority
    and mailer are those of the old one. ``ValueError`` says why not: its message was erased or is
    none, it is claimed or still waits, or a mail that resends it does.
    """
    queue = _queue_table()
    database = router.db_for_write(queue, instance=email)
    with transaction.atomic(using=database):
        old = _held(email, database)
        _refuse_under_way(old)
        message = _with_no_id(read(old))
        new: Email = queue.from_message(message, old.using, old.queue, priority=old.priority)
        new.resend_of, new.about = old.pk, old.about
        new.deliveries = _known(old, message)
        new.save(using=database)
    return new


def _queue_table() -> Any:
    # The models have this verb as a method: by name, there is no circle of imports.
    return apps.get_model("dbqueue_mail.Email")


def _held(email: "EmailFields", database: str) -> Any:
    """As it is now; nobody claims it or resends it as well until the new one is queued."""
    rows = type(email)._base_manager.using(database).select_for_update()
    old = rows.filter(pk=email.pk).first()
    if old is None:
        raise ValueError(f"{email} is not there any more; the archive may have it")
    return old


def _refuse_under_way(old: Any) -> None:
    queue = _queue_table()
    status = old.status if isinstance(old, queue) else Status.DONE
    if status == Status.CLAIMED:
        raise ValueError(f"{old} is claimed just now; who has got it is known when that ends")
    if status in UNDER_WAY:
        raise ValueError(f"{old} still waits to be sent; retry it instead")
    other = resends_of(table_of(queue, old._state.db), [old.pk]).get(old.pk)
    if other is not None:
        raise ValueError(f"{old} is being sent again by email {other}, which is not finished")


def _with_no_id(message: EmailMessage) -> EmailMessage:
    headers = message.extra_headers.items()
    message.extra_headers = {k: v for k, v in headers if k.lower() != "message-id"}
    return message


def _known(old: "EmailFields", message: EmailMessage) -> dict[str, object]:
    """Who does not get it; nobody where all have got it before."""
    before, after = Deliveries(old.deliveries), Deliveries({})
    if before.waiting(message.recipients(), refused_too=True):
        after.by_address = before.having(SENT)
    return after.stored()
