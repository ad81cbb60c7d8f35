"""What a verb is told besides the jobs: another queue, priority, time, or time to run."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from ..conf.queue_order import is_pattern
from ..fields import check_name
from ..lifecycle.enqueue import CHECKS, checked_due
from ..monitor.failures import clock
from ..operate.acting import KICK, MOVE, PRIORITIZE, RESCHEDULE, told
from ..operate.acting import Verb as JobVerb
from ..worker.served import Served
from .durations import duration
from .verbs import Refused


def add_values(verb: JobVerb, parser: ArgumentParser) -> None:
    add = parser.add_argument
    if verb is MOVE:
        add("--to", required=True, metavar="QUEUE", help=_("the queue to which they go"))
    if verb is PRIORITIZE:
        add("--to", required=True, type=whole, metavar="NUMBER", help=_("0 is the most urgent"))
    if verb is RESCHEDULE or verb is KICK:
        when = parser.add_mutually_exclusive_group(required=verb is RESCHEDULE)
        at = _("2026-11-26T03:00, in the project's time zone unless it names one")
        when.add_argument("--at", type=moment, metavar="TIME", help=at)
        wait = "10m, 2h, 7d"
        when.add_argument("--in", type=duration, dest="wait", metavar="TIME", help=wait)
    if verb is KICK:
        to_run = _("how long each may run from now on: 90, 10m, 1h")
        add("--time-to-run", type=whole_seconds, metavar="TIME", help=to_run)


def whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise ArgumentTypeError(_("%(given)s is no whole number") % {"given": repr(text)})
    return int(text)


def whole_seconds(text: str) -> int:
    seconds = duration(text)
    if seconds != int(seconds):
        why = _("%(given)s is no whole number of seconds")
        raise ArgumentTypeError(why % {"given": repr(text)})
    return int(seconds)


def moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        if settings.USE_TZ:
            found = timezone.make_aware(found) if timezone.is_naive(found) else found
            told(found)  # as the log has it
            return found
        return found if timezone.is_naive(found) else timezone.make_naive(found)
    except (ValueError, OverflowError):
        why = _("%(given)s is no time such as 2026-11-26T03:00")
        raise ArgumentTypeError(why % {"given": repr(text)}) from None


def check_values(verb: JobVerb, options: dict[str, Any]) -> None:
    """``ValidationError``, or ``Refused``, before anything is done."""
    if verb is MOVE:
        check_name(options["to"], "queue")
        if is_pattern(options["to"]):
            text = _("%(name)s is a pattern: name the queue")
            raise Refused(text % {"name": repr(options["to"])})
    if verb is PRIORITIZE:
        CHECKS["priority"](options["to"])
    if verb is KICK:
        CHECKS["time_to_run"](options["time_to_run"])


def with_values(verb: JobVerb, served: Served, options: dict[str, Any]) -> JobVerb:
    """The verb with what the command line says."""
    if verb is MOVE:
        return verb.with_values(queue=options["to"])
    if verb is PRIORITIZE:
        return verb.with_values(priority=options["to"])
    if verb is RESCHEDULE or verb is KICK:
        due = due_of(served, options["at"], options["wait"])
        return verb.with_values(due=due, time_to_run=options.get("time_to_run"))
    return verb


def due_of(served: Served, at: datetime | None, wait: float | None) -> datetime | None:
    """One moment for all jobs of a table; that of a wait is by the database's own clock."""
    if wait is not None:
        found = clock(served) + timedelta(seconds=wait)
        at = found if settings.USE_TZ else timezone.make_naive(found)
    return None if at is None else checked_due(served.model, at)
