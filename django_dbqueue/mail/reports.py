"""Mail about errors of the queue itself, which is queued as well and must come to an end."""

import logging
import threading
from time import monotonic
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage

from ..current import current_job, is_workers_own
from ..states import Status
from .conf import mail_conf
from .models import Email

logger = logging.getLogger("django_dbqueue")

LOOP = "mail %r is not queued: it reports on the delivery of email %s, itself a report on email %s"
ENOUGH = (
    "mail %r is not queued: this worker has sent its admins %d within an hour "
    "(DBQUEUE['MAIL_ADMIN_REPORTS'])"
)
AGAIN = (
    "mail %r is not queued: attempt %d of %s, which the admins know to fail, is not the last one"
)
HOUR = 3600.0

_here = threading.local()
# When this process told the admins of its own troubles.
_told: list[float] = []


def subject_of_report() -> Email | None:
    """The mail that this thread delivers, or whose failure it is telling of."""
    job = current_job()
    return job if isinstance(job, Email) else None


def leads_to_more(message: EmailMessage) -> bool:
    """Whether what is said of this message's delivery could go on for ever; then it is logged.

    The delivery of mail may be reported by mail, but not the delivery of that; of its attempts the
    admins are told of the first and the last. What a worker tells of itself, while it runs no job
    (a child died, say), goes to them some times an hour.
    """
    about = subject_of_report()
    if about is not None and about.about is not None:
        say_once(logging.WARNING, LOOP, message.subject, about.pk, about.about)
        return True
    if about is not None and _is_for_admins(message) and _is_between(about):
        say_once(logging.INFO, AGAIN, message.subject, about.attempts, about)
        return True
    if is_workers_own() and _is_for_admins(message) and _have_told_enough():
        say_once(logging.WARNING, ENOUGH, message.subject, mail_conf["ADMIN_REPORTS"])
        return True
    return False


def _is_between(about: Email) -> bool:
    """Whether this is neither the first attempt nor, as far as is known, the last one."""
    if about.attempts <= 1 or about.attempts >= about.policy().max_attempts:
        return False
    rows = Email._base_manager.using(about._state.db)
    return not rows.filter(pk=about.pk, status=Status.BURIED).exists()


def _is_for_admins(message: EmailMessage) -> bool:
    known = {_address(one) for one in [*settings.ADMINS, *settings.MANAGERS]}
    return known.issuperset(map(str, message.recipients()))


def _address(entry: Any) -> str:
    """Before Django 6.0 an entry is a pair with a name."""
    return str(entry if isinstance(entry, str) or len(entry) != 2 else entry[1])


def _have_told_enough() -> bool:
    now = monotonic()
    _told[:] = [at for at in _told if now - at < HOUR]
    if len(_told) >= mail_conf["ADMIN_REPORTS"]:
        return True
    _told.append(now)
    return False


def is_saying() -> bool:
    """Whether what is sent now comes from a handler of a line of ours: its errors are nobody's."""
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
