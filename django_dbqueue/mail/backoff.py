"""When a message is tried again."""

from ..backoff import Exponential
from .conf import mail_conf


class MailBackoff:
    """20 minutes, then twice as long each time, at most 6 hours, give or take 10 percent.

    Read from the settings at every failure: ``MAIL_RETRY_FIRST``, ``MAIL_RETRY_FACTOR`` and
    ``MAIL_RETRY_CAP``.
    """

    def seconds(self, attempt: int) -> float:
        """Seconds to wait after this failed attempt; the first one is 1."""
        growing = Exponential(
            first=mail_conf["RETRY_FIRST"],
            factor=mail_conf["RETRY_FACTOR"],
            cap=mail_conf["RETRY_CAP"],
            jitter=0.1,
        )
        return growing.seconds(attempt)
