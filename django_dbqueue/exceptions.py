"""What django-dbqueue raises; bad input is a plain ``ValueError`` or ``ValidationError``."""

from decimal import Decimal

LONGEST = 1e300  # seconds that a float holds for sure


class DBQueueError(Exception):
    """The base of every error that django-dbqueue raises by itself."""


class ClaimLost(DBQueueError):
    """The job belongs to another owner by now; nothing was written."""


class QueueFull(DBQueueError):
    """A queue holds as many jobs as its ``max_length`` allows; nothing was written.

    A transaction in which it is caught goes on. Of a job that was dropped to make room it is what
    ``errors`` name.
    """

    alias = ""  # of the database that had no room


class Undone(DBQueueError):
    """A job with ``exactly_once`` tried to end by itself; what its run wrote was undone."""


class TimeToRunExceeded(DBQueueError, TimeoutError):
    """The job ran longer than its time to run."""


class Retry(DBQueueError):
    """Raise it in ``run()`` to have the job retried after ``delay`` seconds (the attempt counts).

    Without a delay the policy's backoff decides. ``of`` is the error that is recorded in its place.
    """

    def __init__(
        self,
        delay: float | Decimal | None = None,
        reason: str = "",
        of: BaseException | None = None,
    ) -> None:
        if delay is not None and not _is_delay(delay):
            raise ValueError(f"delay must be at least 0 seconds, not {shown(delay)}")
        super().__init__(reason or "asked to be retried")
        self.delay = None if delay is None else float(min(delay, LONGEST))
        self.of = of


def gettext_noop(text: str) -> str:
    """Marks a text that is translated where a person reads it, which is not here."""
    return text


class Told(ValueError):
    """An error for people: English, but where commands tell it in the language of who reads it."""

    def __init__(self, text: str, **values: object) -> None:
        super().__init__(text % values)
        self.text, self.values = text, values


def shown(value: object) -> str:
    """A value as a message may show it: of a number that is too long to be printed, its type."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"a very long {type(value).__name__}"


def first_line(error: BaseException) -> str:
    """The first line of what an error says; a driver may add a page of hints."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _is_delay(value: object) -> bool:
    if isinstance(value, Decimal) and value.is_nan():
        return False  # it would not even be compared
    return isinstance(value, int | float | Decimal) and value >= 0


class Bury(DBQueueError):
    """Raise it in ``run()`` to park the job for a person, whatever attempts are left.

    ``of`` is the error that is recorded in its place; ``reason`` then says why it is final.
    """

    def __init__(self, reason: str = "", of: BaseException | None = None) -> None:
        super().__init__(reason or "asked to be buried")
        self.of = of


def recorded(error: BaseException) -> BaseException:
    """The error itself, or the one that a ``Retry`` or ``Bury`` is raised for."""
    return getattr(error, "of", None) or error
