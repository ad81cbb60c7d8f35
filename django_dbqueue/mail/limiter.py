"""Mailers at their limits, and mailers that rest: their mail waits in lanes of its own."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError

from ..fields import check_name
from ..lifecycle.limiter import SEPARATOR, Limiter
from ..lifecycle.rates import Rate
from .conf import mail_conf, mailer_of, rates_for

UNSTEADY_SECONDS = 0.25  # by which the shortest deliveries of several workers may differ


class MailLimiter(Limiter):
    """By mailer. The mail of one that is limited is queued into its lane; what waits elsewhere,
    since it has a limit or a pause only now, goes there when it is claimed."""

    def __init__(self, model: Any) -> None:
        self.model, self.has_lanes = model, True

    def lane_of(self, job: Any) -> str:
        name = mailer_of(job.using)
        lane = _lane(job, name)
        return lane if lane and limits_of(name) else str(job.queue)

    def rates(self, queue: str) -> list[Rate]:
        return limits_of(self.bucket_of(queue))

    def burst(self, queue: str) -> int | None:
        return None

    def bucket_of(self, queue: str) -> str:
        return queue.partition(SEPARATOR)[2]

    def rest(self, queue: str, using: str) -> float:
        return _rest(self.bucket_of(queue))

    def is_limited(self, queue: str, using: str) -> bool:
        name = self.bucket_of(queue)
        return bool(name) and (bool(limits_of(name)) or _rest(name) > 0)

    def order(self, queue: str) -> int:
        return int(self.base_of(queue) != mail_conf["URGENT_QUEUE"])

    def cost(self, job: Any) -> int:
        """As far as the row tells: what was too much is given back when it is sent."""
        return int(job.recipients.count(",")) + 1

    def used_at(
        self, begun: float, ended: float | None, now: float, fastest: float
    ) -> float | None:
        """Servers count at some moment of a delivery. Where all of them are slow it is each time
        the same one: what took longer than others was counted so much later, at the most."""
        return None if ended is None else ended - max(0.0, fastest - UNSTEADY_SECONDS)

    def strays(self, jobs: list[Any], using: str) -> dict[str, list[Any]]:
        names = {job.using: mailer_of(job.using) for job in jobs}
        held = {name for name in names.values() if limits_of(name) or _rest(name)}
        found: dict[str, list[Any]] = {}
        for job in jobs if held else ():
            name = names[job.using]
            lane = _lane(job, name) if name in held else ""
            if lane and lane != job.queue:
                found.setdefault(lane, []).append(job)
        return found


def limits_of(mailer: str) -> list[Rate]:
    """None where they make no sense: sending tells."""
    try:
        return rates_for(mailer)
    except ImproperlyConfigured:
        return []


def _lane(job: Any, mailer: str) -> str:
    """'' where the two make no name: then sending alone keeps the limit."""
    suffix = f"{SEPARATOR}{mailer}"
    lane = f"{job.queue.removesuffix(suffix)}{suffix}"
    try:
        check_name(lane, "queue")
    except ValidationError:
        return ""
    return lane


def _rest(mailer: str) -> float:
    from .models import Mailer  # noqa: PLC0415  # needs the tables, which need this

    return Mailer.objects.rest(mailer)
