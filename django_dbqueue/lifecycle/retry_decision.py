"""What becomes of a job whose attempt went wrong, and how that is said."""

from dataclasses import dataclass
from math import isinf

from ..exceptions import Bury, Retry
from ..states import Status
from .policy import MAX_CRASHES, MAX_SECONDS, Policy


@dataclass(frozen=True, slots=True)
class RetryDecision:
    """The next state, the seconds until a retry, and both in words."""

    status: Status
    delay: float
    words: str

    def __str__(self) -> str:
        return self.words

    @property
    def is_buried(self) -> bool:
        return self.status is Status.BURIED


def after_failure(policy: Policy, attempts: int, error: BaseException) -> RetryDecision:
    """Retried by the policy or by the error's own wish; buried without attempts left."""
    if isinstance(error, Bury):
        return RetryDecision(Status.BURIED, 0, "buried as it asked")
    if attempts >= policy.max_attempts:
        used = f"{attempts} of {policy.max_attempts} attempts used"
        return RetryDecision(Status.BURIED, 0, f"buried: {used}")
    asked = error.delay if isinstance(error, Retry) else None
    delay = min(policy.pause(attempts) if asked is None else asked, MAX_SECONDS)
    if delay == 0:
        return RetryDecision(Status.READY, 0, "retried at once")
    return RetryDecision(Status.DELAYED, delay, f"retried in {duration(delay)}")


def after_crash(crashes: int) -> RetryDecision:
    """Runs again apart, and before the last one, which buries, alone: it is certainly its own."""
    if crashes >= MAX_CRASHES:
        return RetryDecision(Status.BURIED, 0, "buried")
    where = "alone" if crashes == MAX_CRASHES - 1 else "among suspects"
    return RetryDecision(Status.READY, 0, f"runs again, {where}")


UNHARMED = RetryDecision(Status.READY, 0, "runs again")
LOST = RetryDecision(Status.READY, 0, "its worker was lost, runs again")


def duration(seconds: float) -> str:
    """``0.3 s``, ``50 s``, ``20 min``, ``1 h 30 min``, ``2 d``: at most two units."""
    if isinf(seconds):
        return "an eternity"  # by a date that a hand wrote
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
