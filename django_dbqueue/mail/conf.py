"""The settings of queued mail: keys ``MAIL_*`` of ``settings.DBQUEUE``."""

from django.conf import settings
from django.core import mail

from ..conf import Section

mail_conf = Section(
    "MAIL_",
    {
        # Who delivers: a backend, or from Django 6.1 on, where MAILERS is set, one of its entries.
        "DELIVERY_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "USING": None,
        # Seconds to wait for the server where the backend has a timeout and none is set; None: for
        # ever.
        "TIMEOUT": 30.0,
        # After a temporary failure; read when a message fails.
        "RETRY_FIRST": 1200.0,  # seconds
        "RETRY_FACTOR": 2.0,
        "RETRY_CAP": 6 * 3600.0,  # seconds
        "MAX_ATTEMPTS": 8,  # read when the process starts
        # Enqueueing
        "QUEUE": "default",
        "MAX_BYTES": 10 * 1024 * 1024,  # the whole message as stored
        # A thread keeps its connection for so many messages and seconds.
        "CONNECTION_MAX_MESSAGES": 100,
        "CONNECTION_MAX_AGE": 60.0,
    },
    may_be_none={"TIMEOUT"},
)


def mailers_configured() -> bool:
    """Whether mail goes by the entries of ``MAILERS`` (Django 6.1) instead of ``EMAIL_BACKEND``."""
    return hasattr(mail, "mailers") and hasattr(settings, "MAILERS")
