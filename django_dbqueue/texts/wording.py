"""Numbers, times and words that many pages share, in the language of the person who reads them.

Where no language is active, as for machines and for logs, all of it is English.
"""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from math import isinf
from typing import Any

from django.utils import timezone
from django.utils.formats import get_format, number_format
from django.utils.functional import lazy
from django.utils.translation import get_language, gettext_lazy, ngettext, pgettext_lazy
from django.utils.translation import gettext as _

from ..exceptions import Told
from ..lifecycle.claim_end import units_of
from ..lifecycle.operator import Changed
from ..lifecycle.rates import Rate
from .refusals import translated

# By what a state is called in code, and in what programs read.
STATES = {
    "ready": pgettext_lazy("state of a job", "ready"),
    "claimed": pgettext_lazy("state of a job", "claimed"),
    "done": pgettext_lazy("state of a job", "done"),
    "delayed": pgettext_lazy("state of a job", "delayed"),
    "buried": pgettext_lazy("state of a job", "buried"),
    "expired": pgettext_lazy("state of a job", "expired"),
    "cancelled": pgettext_lazy("state of a job", "cancelled"),
    "waiting for its key": pgettext_lazy("state of a job", "waiting for its key"),
    "unknown": pgettext_lazy("state of a job", "unknown"),
    "gone": pgettext_lazy("state of a job", "gone"),
}
WORKER_STATES = {
    "alive": pgettext_lazy("state of a worker", "alive"),
    "paused": pgettext_lazy("state of a worker", "paused"),
    "draining": pgettext_lazy("state of a worker", "draining"),
    "stopping": pgettext_lazy("state of a worker", "stopping"),
    "silent": pgettext_lazy("state of a worker", "silent"),
    "stopped": pgettext_lazy("state of a worker", "stopped"),
}
# Why jobs were left as they were.
SKIPPED = {
    "moved_on": gettext_lazy("their state had moved on"),
    "twins": gettext_lazy("a job with the same dedup key is there already"),
    "no_room": gettext_lazy("the queue is full"),
    "barred": gettext_lazy("a constraint of the table forbids it"),
}
UNITS = {
    "s": gettext_lazy("%(number)s s"),
    "min": gettext_lazy("%(number)s min"),
    "h": gettext_lazy("%(number)s h"),
    "d": gettext_lazy("%(number)s d"),
}


def said(error: BaseException) -> str:
    """What an error says; its own words in the language that is active, where they are for
    people."""
    if isinstance(error, Told):
        return _(error.text) % error.values
    return translated(str(error))


def state_word(state: str) -> str:
    """For people; what is none of ours stays as it is."""
    return str(STATES.get(state, state))


def worker_state_word(state: str) -> str:
    return str(WORKER_STATES.get(state, state))


def number(value: float) -> str:
    """A whole number, with thousands set apart."""
    whole = round(value)
    if get_language() is None:
        return f"{whole:,}"
    return str(number_format(Decimal(whole), 0, force_grouping=True))


# For texts that are made before anybody reads them.
number_later: Any = lazy(number, str)


def digits(text: str) -> str:
    """A number as Python writes it, with the decimal sign of the language."""
    if get_language() is None:
        return text
    return text.replace(".", str(get_format("DECIMAL_SEPARATOR")))


def duration(seconds: float) -> str:
    """``0.3 s``, ``50 s``, ``20 min``, ``1 h 30 min``, ``2 d``: at most two units."""
    if isinf(seconds):
        return _("an eternity")  # by a date that a hand wrote
    parts = [UNITS[unit] % {"number": digits(amount)} for amount, unit in units_of(seconds)]
    return " ".join(map(str, parts))


def local(moment: datetime) -> datetime:
    """As the project shows times; in UTC where its zone has no such date."""
    if timezone.is_naive(moment):
        return moment
    try:
        return timezone.localtime(moment)
    except OverflowError:
        return moment


def ago(seconds: float) -> str:
    return _("%(time)s ago") % {"time": duration(seconds)}


def rate_word(rate: Rate) -> str:
    """``100 a minute``."""
    words = {
        "second": _("%(number)s a second"),
        "minute": _("%(number)s a minute"),
        "hour": _("%(number)s an hour"),
        "day": _("%(number)s a day"),
    }
    return words[rate.period] % {"number": number(rate.limit)}


def period_word(rate: Rate) -> str:
    words = {"second": _("second"), "minute": _("minute"), "hour": _("hour"), "day": _("day")}
    return words[rate.period]


def changed(result: Changed, shown: Callable[[float], str] = number) -> str:
    """What an action did, to how many jobs; commands show numbers as they are (``str``)."""
    why = {name: getattr(result, name, 0) for name in ("twins", "no_room", "barred")}
    reasons = [(count, str(SKIPPED[name])) for name, count in why.items() if count]
    if hasattr(result, "reasons"):  # of an app
        reasons += result.reasons()
    told = were_changed(result.changed, shown)
    if moved_on := result.skipped - sum(count for count, _ in reasons):
        told += f", {skipped(moved_on, str(SKIPPED['moved_on']), shown)}"
    return "; ".join([told, *(skipped(*reason, shown) for reason in reasons)])


def were_changed(count: int, shown: Callable[[float], str] = number) -> str:
    text = ngettext("%(number)s changed", "%(number)s changed", count)
    return text % {"number": shown(count)}


def skipped(count: int, why: str, shown: Callable[[float], str] = number) -> str:
    text = ngettext("%(number)s skipped: %(why)s", "%(number)s skipped: %(why)s", count)
    return text % {"number": shown(count), "why": why}
