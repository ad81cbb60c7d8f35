"""Times and numbers as people read them."""

from datetime import datetime
from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from ..texts import wording
from ..texts.wording import digits, local

TIMES = {**wording.UNITS, "ms": gettext_lazy("%(number)s ms")}


def short_time(seconds: float) -> str:
    """In one unit, as exact as one can hear: ``10 ms``, ``1.5 s``, ``90 s``, ``5 min``, ``1 h``."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds == size or seconds >= 2 * size:
            return str(TIMES[unit] % {"number": rounded(seconds / size)})
    amount, unit = (seconds, "s") if seconds >= 0.9995 else (seconds * 1000, "ms")
    return str(TIMES[unit] % {"number": rounded(amount)})


def rounded(value: float) -> str:
    """Two digits, or all of a whole number."""
    return wording.number(value) if value >= 9.95 else digits(f"{value:.2g}")


def ago(seconds: float | None) -> str:
    return "" if seconds is None else wording.ago(max(0.0, seconds))


def number(value: float) -> str:
    """With thousands set apart; small fractions with two digits."""
    is_whole = value >= 10 or value == int(value)
    return wording.number(value) if is_whole else digits(f"{value:.2g}")


def short_number(value: float) -> str:
    """For an axis, whose steps are round: ``500``, ``2 k``, ``1.5 M``."""
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k")):
        if value >= size:
            return digits(f"{value / size:.10g} {unit}")
    return digits(f"{value:g}")


def percent(share: float) -> str:
    """Never 0 % where there was something."""
    if 0 < share < 0.01:
        return _("< %(number)s %%") % {"number": 1}
    return _("%(number)s %%") % {"number": digits(f"{100 * share:.0f}")}


def clock(moment: datetime) -> str:
    return local(moment).strftime("%H:%M")


def day_and_clock(moment: datetime) -> str:
    return str(date_format(local(moment), pgettext("format of a day and time", "D H:i")))


def weekday(moment: datetime) -> str:
    return str(date_format(moment, "D"))


def short(moment: datetime) -> str:
    """Of today the time alone."""
    is_today = local(moment).date() == local(timezone.now()).date()
    if is_today:
        return clock(moment)
    return str(date_format(local(moment), pgettext("format of a date and time", "d M H:i")))


def time_tag(moment: Any, label: str = "") -> SafeString | str:
    """A moment for people and programs; what is no moment stays what it is."""
    if not isinstance(moment, datetime):
        return "" if moment is None else str(moment)
    shown = local(moment)
    text = date_format(shown, "DATETIME_FORMAT")
    return format_html(
        '<time datetime="{}" title="{}">{}</time>', shown.isoformat(), text, label or text
    )
