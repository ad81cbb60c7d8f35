"""The settings of queued mail: keys ``MAIL_*`` of ``settings.DBQUEUE``."""

from django.conf import settings
from django.core import mail
from django.core.exceptions import ImproperlyConfigured

from ..conf import Section
from ..conf.bounds import Bound, Range, Unlimited, seconds
from ..lifecycle.rates import Rate, rates_of

DEFAULT = "default"
TIME_TO_RUN = 300  # seconds for one message
COUNT_MAX = 2**31 - 1
BYTES_MAX = 2**30

mail_conf = Section(
    "MAIL_",
    {
        # What delivers: a backend, or from Django 6.1 on, where MAILERS is set, one of its entries.
        "DELIVERY_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "USING": None,
        # Seconds to wait for the server where the backend has a timeout and none is set; None: for
        # ever.
        "TIMEOUT": 30.0,
        # The same for the answer to a whole message, which may take a server long; RFC 5321 asks
        # for 10 minutes, but an email's time to run is 5. To give up sooner may send it twice.
        "FINAL_TIMEOUT": 240.0,
        # After a temporary failure; read when a message fails.
        "RETRY_FIRST": 1200.0,  # seconds
        "RETRY_FACTOR": 2.0,
        "RETRY_CAP": 6 * 3600.0,  # seconds
        "MAX_ATTEMPTS": 8,  # read when the process starts
        # What an error means: a function from it to "retry", "fail" or "pause".
        "CLASSIFIER": "django_dbqueue.mail.outcomes.classify",
        # Sent as a whole, and no answer: "retry", or "hold" for a person.
        "IN_DOUBT": "retry",
        # So often; then it is held, too. After 20 and 40 minutes more a server that was merely
        # slow has recovered, and one that takes mail without a word fills people's mailboxes.
        "IN_DOUBT_REPEATS": 2,
        # Mailers that refuse a Message-ID, beyond those that are known to.
        "NO_MESSAGE_ID": (),
        "PAUSE": 300.0,  # seconds that a mailer rests after a 421 or 454
        # By mailer: {"smtp": {"second": 14, "day": 50_000}}, in recipients.
        "LIMITS": {},
        "ADMIN_REPORTS": 10,  # an hour, by one worker on its own troubles; more are only logged
        # Enqueueing
        "QUEUE": "default",
        "URGENT_QUEUE": "urgent",
        "MAX_BYTES": 10 * 1024 * 1024,  # the whole message as stored
        # Of messages, read by the project's own backend, beyond those that packages are known to.
        "ATTRIBUTES": (),
        # A thread keeps its connection for so many messages and seconds.
        "CONNECTION_MAX_MESSAGES": 100,
        "CONNECTION_MAX_AGE": 60.0,
        # Staging: who may get mail, by domain (none = all), and who gets it instead.
        "ALLOWED_DOMAINS": (),
        "OVERRIDE_RECIPIENTS": (),
        # Seconds after its end that an email keeps its message, and its row; 0 = for good.
        "KEEP_BODIES": 0.0,
        "KEEP_ROWS": 0.0,
    },
    may_be_none={"TIMEOUT"},
)

# With less, nothing would be taken, all of it would fail, or a server would be left no time.
BOUNDS: dict[str, Bound] = {
    "DELIVERY_BACKEND": Unlimited("checks import it"),
    "USING": Unlimited("checks look it up in MAILERS"),
    "TIMEOUT": seconds(0.1),
    "FINAL_TIMEOUT": Unlimited("checks compare it with TIME_TO_RUN"),
    "RETRY_FIRST": seconds(),
    "RETRY_FACTOR": Range(1, 1000),
    "RETRY_CAP": seconds(),
    "MAX_ATTEMPTS": Range(1, COUNT_MAX),
    "CLASSIFIER": Unlimited("checks call it"),
    "IN_DOUBT": Unlimited("checks know its two words"),
    "IN_DOUBT_REPEATS": Range(0, COUNT_MAX),
    "NO_MESSAGE_ID": Unlimited("checks look them up in MAILERS"),
    "PAUSE": seconds(),
    "LIMITS": Unlimited("checks read each of them"),
    "ADMIN_REPORTS": Range(0, COUNT_MAX),
    "QUEUE": Unlimited("checks look whether it is a name"),
    "URGENT_QUEUE": Unlimited("checks look whether it is a name"),
    "MAX_BYTES": Range(1, BYTES_MAX, "bytes"),
    "ATTRIBUTES": Unlimited("whatever a message has"),
    "CONNECTION_MAX_MESSAGES": Range(1, COUNT_MAX),
    "CONNECTION_MAX_AGE": seconds(),
    "ALLOWED_DOMAINS": Unlimited("checks look at each domain"),
    "OVERRIDE_RECIPIENTS": Unlimited("checks look at each address"),
    "KEEP_BODIES": seconds(),
    "KEEP_ROWS": seconds(),
}


def rates_for(mailer: str) -> list[Rate]:
    """The limits of a mailer; ``ImproperlyConfigured`` where they make no sense."""
    given = mail_conf["LIMITS"].get(mailer, {})
    try:
        return rates_of(given, f"DBQUEUE['MAIL_LIMITS'][{mailer!r}]")
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from None


def mailer_of(using: str) -> str:
    """The mailer that delivers what was queued with this ``using``; that of most has no name."""
    if using:
        return using
    named = mail_conf["USING"] if mailers_configured() else None
    return str(named or DEFAULT)


def mailers_configured() -> bool:
    """Whether mail goes by the entries of ``MAILERS`` (Django 6.1) instead of ``EMAIL_BACKEND``."""
    return hasattr(mail, "mailers") and hasattr(settings, "MAILERS")
